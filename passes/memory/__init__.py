"""Placement of temporaries in one arena."""
