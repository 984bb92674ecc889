"""The ring of a stream: what clients that are cut, slow and come back at random read from it."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from tau.serve.event_ring import EventRing


@dataclass
class Piece:
    """A piece of the text of a block."""

    block: int
    text: str

    def copy(self) -> Piece:
        return Piece(self.block, self.text)

    def joins(self, later: Piece) -> bool:
        return self.block == later.block

    def absorb(self, later: Piece) -> bool:
        self.text += later.text
        return True


@dataclass(frozen=True)
class Progress:
    call: str
    so_far: int


Item = Piece | Progress | str
PIECES = st.builds(Piece, st.integers(0, 1), st.text("abc", min_size=1, max_size=3))
PROGRESS = st.builds(Progress, st.sampled_from("xy"), st.integers(0, 9))
ITEMS = st.one_of(PIECES, PIECES, PROGRESS, st.sampled_from(["start", "end"]))
# What happens: a record is published, a client reads up to so many bytes, or is cut off and comes back.
STEPS = st.lists(st.one_of(ITEMS, ITEMS, ITEMS, st.integers(1, 40), st.just("cut")), max_size=80)


def weight(item: Item) -> int:
    return len(item.text) if isinstance(item, Piece) else 5


class Client:
    """What a client has: the records that it read, and the highest number."""

    def __init__(self) -> None:
        self.cursor = 0
        self.heard: list[tuple[int, Item]] = []
        self.snapshots: list[int] = []

    def read(self, ring: EventRing[Item], room: int) -> None:
        if not ring.reaches(self.cursor):
            self.cursor = ring.last
            self.snapshots.append(ring.last)
            return
        for seq, item in ring.read(self.cursor, ring.last):
            self.heard.append((seq, item))
            self.cursor = seq
            room -= weight(item)
            if room <= 0:
                return
        self.cursor = max(self.cursor, ring.last)


def published(ring: EventRing[Item], item: Item, limit: int) -> None:
    kept = item.copy() if isinstance(item, Piece) else item
    ring.append(kept, weight(item), item.call if isinstance(item, Progress) else None)
    ring.trim(limit)


@given(STEPS, st.integers(10, 200))
@settings(max_examples=300)
def test_a_client_hears_everything_once_in_order_or_gets_a_snapshot(steps: list[Item | int], limit: int) -> None:
    ring: EventRing[Item] = EventRing(Piece)
    told: list[Item] = []
    client = Client()
    for step in steps:
        if isinstance(step, int):
            client.read(ring, step)
        elif step == "cut":  # what it has read stays; it comes back with its number
            client.read(ring, 1)
        else:
            told.append(step.copy() if isinstance(step, Piece) else step)
            published(ring, step, limit)
    while client.cursor < ring.last:
        client.read(ring, 10)
    seqs = [seq for seq, _ in client.heard]
    assert seqs == sorted(set(seqs))
    check_nothing_is_missing(told, client)


def check_nothing_is_missing(told: list[Item], client: Client) -> None:
    """Between two records that a client heard there are only pieces that were joined, or progress that was replaced."""
    snapshots = client.snapshots
    at = 0
    for seq, item in client.heard:
        skipped = [snapshot for snapshot in snapshots if at < snapshot < seq]
        at = max([at, *skipped])
        between = told[at : seq - 1]
        own = told[seq - 1]
        if isinstance(item, Piece):
            assert isinstance(own, Piece)
            pieces = [one for one in between if isinstance(one, Piece)]
            assert item.text == "".join(one.text for one in [*pieces, own])
            assert all(one.block == item.block for one in pieces)
            between = [one for one in between if not isinstance(one, Piece)]
        else:
            assert item == own
        for one in between:
            assert isinstance(one, Progress)
            assert any(isinstance(later, Progress) and later.call == one.call for later in told[seq - 1 :]) or (
                isinstance(item, Progress) and item.call == one.call
            )
        at = seq


@given(st.lists(ITEMS, max_size=60), st.integers(0, 60))
def test_two_clients_read_the_same_and_leave_the_ring_as_it_is(items: list[Item], after: int) -> None:
    ring: EventRing[Item] = EventRing(Piece)
    for item in items:
        published(ring, item, 10_000)
    after = min(after, ring.last)
    first = [(seq, str(item)) for seq, item in ring.read(after, ring.last)]
    assert first == [(seq, str(item)) for seq, item in ring.read(after, ring.last)]


@given(st.lists(ITEMS, min_size=1, max_size=60))
def test_records_after_the_last_break_are_pieces_of_one_block(items: list[Item]) -> None:
    ring: EventRing[Item] = EventRing(Piece)
    for item in items:
        published(ring, item, 10_000)
        rest = list(ring.read(ring.last_break - 1, ring.last))
        assert len(rest) == 1 or not rest


def test_the_size_stays_within_the_limit_and_counts_what_is_there() -> None:
    ring: EventRing[Item] = EventRing(Piece)
    for at in range(5000):
        published(ring, Progress("x", at) if at % 3 else Piece(at % 7, "abc"), 1000)
        assert ring.size <= 1000
    assert ring.weight_after(ring.first - 1) == ring.size
    assert ring.last == 5000
    assert not ring.reaches(ring.first - 2)
    assert ring.reaches(ring.first - 1)


def test_records_after_a_cursor_that_is_waited_for_are_kept() -> None:
    ring: EventRing[Item] = EventRing(Piece)
    for at in range(100):
        ring.append(f"{at}", 10)
    ring.trim(50, keep_after=20)
    assert ring.first == 21
    ring.trim(50, keep_last=30)
    assert ring.first == 71


def test_a_client_far_behind_gets_joined_records_of_a_limited_size() -> None:
    ring: EventRing[object] = EventRing(Piece)
    for number in range(100):
        ring.append(Piece(0, str(number % 10)), 1000)
    joined = [record.item for record in ring.read(0, 100, 10_000)]
    assert [len(item.text) for item in joined if isinstance(item, Piece)] == [10] * 10
