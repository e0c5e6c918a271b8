"""Tests of bayeseval; shared helpers are imported as `tests.helpers`."""
