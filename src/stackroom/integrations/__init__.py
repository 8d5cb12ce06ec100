"""Thin adapters for LangChain, LlamaIndex and Haystack: a module and an extra each. Each is made for one scope."""
