"""How much a kernel holds, and which memory is shared: figures that trade the time of compiling,
memory and the time of a run."""

from __future__ import annotations

from typing import NamedTuple


class FusionTuning(NamedTuple):
    """What becomes one kernel."""

    most_nodes: int = 96
    """Operations of a group. Larger ones are cut: code size and compile time grow, speed does
    not."""

    long_row: int = 64
    """Elements in a row from which on a loop over it costs no more than one over the whole
    array."""

    row_product_depth: int = 256
    """The depth of a product up to which work on whole rows joins it, as below."""

    row_product_length: int = 16384
    """The length of its rows likewise: then blocks of whole rows, and the right operand that each
    of them reads, stay in the cache. A symbolic length is taken to fit: else the product would be
    written to memory."""

    row_product_rows: int = 32
    """The rows from which on it does."""

    nest_nodes: int = 96
    """A map is not cut at the pieces of a concatenation if the nests together would have more
    operations."""

    slice_bytes: int = 16 << 10
    """Bytes that must be saved for each slice of a concatenation in place, which has a kernel of
    its own. That takes 3 ms to compile. Runs were measured to be 4 % shorter there and 35 % where
    pieces have megabytes; below, it was within the noise."""

    joined_pieces: int = 64
    """Pieces up to which concatenations of concatenations become one in place."""

    kernel_pieces: int = 8
    """Pieces above which a concatenation in a kernel is split."""

    loop_work: int = 1 << 30
    """Elements that the trips of a loop compute in one launch, at most: up to a few tenths of a
    second, after which a run can be interrupted."""

    loop_function: int = 32
    """Operations that an elementary function takes, in that work."""

    loop_symbolic_lanes: int = 1 << 16
    """Lanes that a symbolic number of them is taken for, where too many would be worse than too
    few."""

    loop_repeated: int = 1 << 17
    """Operations up to which a trip may compute anew for each lane what lanes share. Lanes side by
    side share scalars, so 4,096 lanes take 128 functions more, as long as a launch."""

    tape_bytes: int = 512
    """Bytes of a row of a tape, over the variables that a loop carries: as many lanes have tapes in
    scratch as run side by side."""

    loop_least_lanes: int = 16
    """Lanes below which a trip takes no less, since each waits for the one before."""

    lane_block_trips: int = 8
    """Trips that a block of lanes runs before the next block, where rows of many lanes are read or
    written: a few lanes through all trips would touch a page for each."""

    lane_block_bytes: int = 8 << 10
    """Bytes of a row of such a block."""

    least_block_lanes: int = 256
    """Lanes from which on it pays."""

    trip_work: int = 4_000_000
    """Picoseconds that a trip of a loop takes at most, for the loop to become a kernel. Threads
    would not share so little, and launches would take a good part of it."""

    loop_time: int = 10_000_000_000
    """Picoseconds that such a kernel takes at most, before the run can be interrupted."""

    late_bytes: int = 64 << 10
    """Bytes that the backward part keeps of functions of one value, from which on it is looked for
    fewer."""

    late_members: int = 64
    """Functions of one value above which that is not looked for: the search is quadratic."""

    late_work: int = 16
    """Operations that may be repeated for a byte that need not be kept."""

    inlined_in_kernel: int = 8
    """Elementary functions up to which a kernel has them inlined; beyond, they spill registers
    anyway."""

    inlined_in_program: int = 50
    """Elementary functions up to which a program has them inlined: its time of compilation grows
    with each."""

    loops_compared: int = 8
    """Loops that start alike with which a loop is compared, to find one that has its trips too."""

    glue_per_call: int = 32
    """Other statements for each call up to which a kernel is glue; with AVX-512 up to 50 cost a run
    nothing."""


class MemoryTuning(NamedTuple):
    """What is kept, and what lies where something lay before."""

    given_up_bytes: int = 64 << 10
    """Bytes of a constant from which on it is not kept beside its panels."""

    most_padding: int = 4
    """How many times the bytes of the plain constant a packed one may take."""

    renewal_bytes: int = 64 << 10
    """Bytes of variables from which on their new values take the place of the old ones. For less,
    two blocks that take turns cost nothing."""

    turned_trips: int = 4
    """Trips of a loop that are written side by side."""

    turned_steps: int = 256
    """Steps that these take at most: each is a row of the table and no more, but nested loops
    multiply."""

    trips_bytes: int = 256 << 20
    """Bytes up to which the states of all trips of a loop are kept for its gradient; beyond, as
    many of them as below."""

    kept_depth: int = 16
    """The depth of a product from which on what it gives in a trip is kept for the derivative: to
    store a number and read it again takes some ten operations."""

    trips_kept: int = 64
    """States that are kept of a loop whose number of trips is no size: 2,145 trips run twice then,
    47,905 three times, 814,385 four times."""


FUSION = FusionTuning()
MEMORY = MemoryTuning()


__all__ = ["FUSION", "MEMORY", "FusionTuning", "MemoryTuning"]
