"""Looks from outside at what is there: a store against every promise it makes, a library for leaks."""

from stackroom.auditing._certificate import CapabilityCheck, Certificate, Wrong, certify
from stackroom.auditing._leak_test import leak_test
from stackroom.auditing._report import DoorReport, Leak, LeakReport

__all__ = ["CapabilityCheck", "Certificate", "DoorReport", "Leak", "LeakReport", "Wrong", "certify", "leak_test"]
