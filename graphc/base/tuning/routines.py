"""Where one native routine over rows hands over to another, and what they cost."""

from __future__ import annotations

from typing import NamedTuple


class RoutineTuning(NamedTuple):
    """Sizes in elements; costs in picoseconds of one core, by which rows are shared by threads."""

    quick_words: int = 2048
    """Words up to which a sorting network is faster than parting by a pivot."""

    longest_network: int = 1 << 16
    """Elements of a row above which digits are faster where vectors can't be parted: networks take
    more steps for each, and vectors come from the second cache."""

    few_ranks: int = 48
    """Elements up to which comparing all takes less time than clearing and adding up counts of
    digits."""

    most_bins: int = 1 << 14
    """Bins up to which there are several tables: more don't stay in the nearest caches."""

    sort_element: int = 12_000
    """An element of a row that is sorted."""

    sort_row: int = 200_000
    """And a row of any length."""

    search_element: int = 15_000
    """The place of one element."""

    count_element: int = 1_000
    """One element counted, or a count cleared."""

    choose_element: int = 300
    """One truth value looked at, or a place written."""

    transform_element: int = 1_500
    """An element of a row that is transformed."""

    transform_call: int = 50_000
    """And a call, of one row or of as many as go side by side."""

    side_by_side: int = 2048
    """Elements of a row up to which rows of a batch may be transformed in the lanes of vectors: two
    copies of so many rows take half a second-level cache. What is above gains up to a tenth."""

    unknown_side_by_side: int = 512
    """The same for rows of which only a run tells how long they are: a block of rows is one
    thread's."""

    few_columns: int = 16
    """Columns from which on a row that fills all lanes takes less time by itself: 0.24 µs in place
    of 0.29 for 256 elements of complex64, but 0.33 in place of 0.11 for 128."""

    most_small: int = 16
    """Rows and columns up to which matrices are worked on in the lanes of vectors, so that those
    of one step stay in a cache; larger ones fill vectors by themselves."""

    largest_entered: int = 16
    """One of so many elements of a row is put among its largest in place of sorting the row, which
    takes half the time: a row of 10,000 that ascends took 195 µs where all were, and takes 116."""

    matrix: int = 10_000
    """A matrix that is factored, of any size."""

    multiply_subtract: int = 100
    """And an inner step of it."""


ROUTINES = RoutineTuning()


__all__ = ["ROUTINES", "RoutineTuning"]
