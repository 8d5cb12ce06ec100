"""Stackroom: sources over any vector store, searched within a scope."""
