"""What launches take, and which of them threads share: figures for the compiler."""

from __future__ import annotations

from typing import NamedTuple


class CostTuning(NamedTuple):
    """Picoseconds of work, of one core at 3 to 4 GHz with wide vectors, right within a factor of
    two or so."""

    byte: int = 25
    """A byte loaded or stored, between the bandwidth of the second-level cache and of memory."""

    simple: int = 5
    """An exact operation on a vector, for each byte of an element."""

    division: int = 40
    """Division, remainder and root likewise."""

    function: int = 200
    """An elementary function likewise."""

    check: int = 100
    """A check of an index."""

    unknown_trips: int = 64
    """Iterations of a loop of which nothing is known in advance."""

    scalar: int = 300
    """What a statement outside of vectors takes at least."""

    float_product: int = 25
    """A multiply-add of a product of floats of 32 bits; of 64 it takes two of these."""

    other_product: int = 250
    """A multiply-add of another product, which runs outside of tiles."""

    operand_byte: int = 8
    """A byte of a product's operands, which those of few rows take as long to read as to
    multiply."""


class SharingTuning(NamedTuple):
    """How the iterations of one kernel are divided into ranges that threads share."""

    column_block: int = 64
    """Columns of a product in one iteration: whole panels on every target."""

    row_block: int = 48
    """Rows of a product in one iteration: whole tiles on every target."""

    reduced_columns: int = 2048
    """Columns that a task at least reduces: of narrow stripes the rows lie far apart in memory, and
    a column sum of 4096 x 4096 took three times as long with 512 columns a task as in one piece."""

    few_rows: int = 24
    """Rows up to which a product streams through its right operand."""

    few_rows_bytes: int = 4096
    """Bytes of each row of the right operand that a task of such a product reads at least, or half
    of the row: reading 16 MB in the third-level cache took a fifth longer by half as many."""

    enough_iterations: int = 256
    """Iterations known to be as many need no further level."""

    long_loop: int = 1024
    """Vector loops inside of others, and loops across them, are a level only if they are known to
    be this long, or unknown: with bounds known at compile time short ones are faster."""

    large_size: int = 4096
    """The value of a symbolic size where it is asked whether a kernel would be worth sharing, if
    sizes are large."""

    grouped_terms: int = 1 << 18
    """Terms below which a reduction is not grouped: they are read in less time than it takes to
    hand out parts of them."""

    least_groups: int = 4
    """Groups of terms below which a reduction is not grouped."""

    many_groups: int = 16
    """Groups are the longest of which there are as many."""

    group_levels: int = 2
    """Groups have ``CHUNK`` to this power of steps at least: what they leave to be combined is then
    little."""

    extremes_together: int = 1 << 14
    """Elements of a row among which the first extreme is looked for at a time."""


class ConcurrencyTuning(NamedTuple):
    """Which launches run concurrently, each thread taking some."""

    shared_work: int = 100_000_000
    """Picoseconds from which on threads rather share a kernel: that balances better. For less,
    moving what it reads and writes between their caches takes what it saves."""

    moderate_size: int = 128
    """The value of a symbolic size where work is estimated: far larger ones make large kernels,
    which threads share, and far smaller ones none that are worth it."""

    most_threads: int = 16
    """Threads that groups are made for: more find no work in them."""

    unknown_threads: int = 2
    """Threads that groups are made for where only a run tells how many there are, as in a library;
    it then decides with those that it has. More expect less of groups and leave few of them: of 16
    chains of two products, 64 x 64 each, those for two threads have all 32 launches, those for 3 to
    8 the first 16, and for 16 threads none is made."""

    most_tasks: int = 256
    """Units that a group starts from at most."""

    least_task_work: int = 1_500_000
    """Picoseconds below which several tasks become one: claiming one takes 0.1 µs."""

    gain: float = 0.9
    """A smaller group is taken only where it leaves this share of the work to do: each group has an
    end that is waited for, and what a chain computes is still in the caches of its thread."""

    retry_share: int = 8
    """Where no group pays, one part in this many of what is ready runs alone before the next group
    is looked for."""

    unordered_parts: int = 32
    """Launches that write parts of one slot and are independent of each other; the next ones come
    after them, so that the pairs of those that write and read stay few."""

    more_bytes: int = 512 << 10
    """Bytes by which the arena may grow at any rate: half of the cache that a core has for itself.
    Where sizes are symbolic, up to ``memory_size``, and beyond in proportion."""

    memory_size: int = 256
    """The value of a symbolic size where memory is looked at: at larger ones few kernels are
    small."""

    more_share: float = 0.1
    """The share of the arena by which it may grow where that is more."""

    window_units: int = 64
    """Where an order takes too much memory, it stays much as it was: parts of as many nodes are put
    in order by themselves, and what came first goes first."""


COSTS = CostTuning()
SHARING = SharingTuning()
CONCURRENCY = ConcurrencyTuning()


__all__ = ["CONCURRENCY", "COSTS", "SHARING", "ConcurrencyTuning", "CostTuning", "SharingTuning"]
