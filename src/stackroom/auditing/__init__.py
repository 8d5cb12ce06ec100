"""Looks at what is there from outside: a store against every promise that it makes."""

from stackroom.auditing._certificate import CapabilityCheck, Certificate, Wrong, certify

__all__ = ["CapabilityCheck", "Certificate", "Wrong", "certify"]
