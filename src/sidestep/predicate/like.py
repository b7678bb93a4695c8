"""LIKE patterns: what they match, which range they lie in, and when one pattern says more than another.

A pattern is a sequence of **tokens**: a character, ANY (``_``) or MANY (``%``). In normal form a run of wildcards has
its ANYs first and at most one MANY last, so patterns that match the same texts are equal objects: ``%_%`` is ``_%``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from sidestep.predicate.intervals import Interval, IntervalSet
from sidestep.predicate.nodes import Match, MatchKind
from sidestep.predicate.types import STRING

ANY = "_"
MANY = "%"

Token = tuple[bool, str]
"""(True, ANY or MANY) for a wildcard, (False, a character) for itself."""

_LAST_CHARACTER = chr(0x10FFFF)
_LONGEST_SEARCH = 2_000
"""States that a comparison of two patterns may visit before it is given up."""


@dataclass(frozen=True)
class LikePattern:
    """A pattern in normal form; make one with :func:`parse` or :func:`pattern_of`.

    >>> pattern = parse("PROMO%_%")
    >>> pattern.prefix, pattern.matches("PROMO BRUSHED"), pattern.matches("PROMO")
    ('PROMO', True, False)
    """

    tokens: tuple[Token, ...]

    def __post_init__(self) -> None:
        normal: list[Token] = []
        run: list[Token] = []
        for token in (*self.tokens, (False, "")):
            if token[0]:
                run.append(token)
                continue
            normal += [t for t in run if t[1] == ANY]
            if (True, MANY) in run:
                normal.append((True, MANY))
            run = []
            normal.append(token)
        object.__setattr__(self, "tokens", tuple(normal[:-1]))

    @property
    def prefix(self) -> str:
        """The fixed text at the start."""
        return _leading_text(self.tokens)

    @cached_property
    def least_length(self) -> int:
        """How many characters a matching text has at least."""
        return sum(token != (True, MANY) for token in self.tokens)

    @cached_property
    def _regex(self) -> tuple[re.Pattern[str], ...]:
        """The parts between MANYs; each has a fixed length, so seeking them one after the other never backtracks."""
        parts = [""]
        for wild, character in self.tokens:
            if (wild, character) == (True, MANY):
                parts.append("")
            else:
                parts[-1] += "." if wild else re.escape(character)
        return tuple(re.compile(part, re.DOTALL) for part in parts)

    @cached_property
    def _part_lengths(self) -> tuple[int, ...]:
        lengths = [0]
        for token in self.tokens:
            if token == (True, MANY):
                lengths.append(0)
            else:
                lengths[-1] += 1
        return tuple(lengths)

    def matches(self, text: str) -> bool:
        """Whether the whole text matches, newlines included."""
        parts = self._regex
        if len(parts) == 1:
            return parts[0].fullmatch(text) is not None
        if len(text) < self.least_length or not parts[0].match(text):
            return False
        end = len(text) - self._part_lengths[-1]
        if not parts[-1].match(text, end):
            return False
        position = self._part_lengths[0]
        for part in parts[1:-1]:
            occurrence = part.search(text, position, end)
            if occurrence is None:
                return False
            position = occurrence.end()
        return position <= end

    def as_range(self) -> IntervalSet | None:
        """The texts that match, if they are exactly a range: a fixed text, a prefix, all texts, all but the empty."""
        if all(not wild for wild, _ in self.tokens):
            return IntervalSet.point(STRING, self.prefix)
        if self.tokens == ((True, ANY), (True, MANY)):
            return IntervalSet.at_least(STRING, "", closed=False)
        if self.tokens[-1] == (True, MANY) and len(self.prefix) == len(self.tokens) - 1 and _is_range(self.prefix):
            return prefix_range(self.prefix)
        return None

    def necessary_range(self) -> IntervalSet:
        """A range that every matching text lies in."""
        exact = self.as_range()
        if exact is not None:
            return exact
        # `a_%` and the like: longer than its prefix, so the prefix itself is out.
        longer = IntervalSet.at_least(STRING, self.prefix, closed=self.least_length == len(self.prefix))
        return prefix_range(self.prefix).intersect(longer)

    def implies(self, other: LikePattern) -> bool:
        """Whether every text that matches this surely matches the other.

        All texts of this pattern are read at once, each wildcard standing for every character that the other pattern
        names and for one that it does not, until one is found that the other does not match. A search that grows too
        long is given up, and nothing is implied.

        >>> parse("a%b_c").implies(parse("a%c")), parse("a%c").implies(parse("a%b_c"))
        (True, False)
        """
        if self == other:
            return True
        named: list[str | None] = [None, *{character for wild, character in other.tokens if not wild}]
        start = (0, _past_many(other.tokens, frozenset({0})))
        pending, seen = [start], {start}
        while pending:
            position, reached = pending.pop()
            if position == len(self.tokens):
                if len(other.tokens) not in reached:
                    return False
                continue
            wild, character = self.tokens[position]
            many = (wild, character) == (True, MANY)
            following = [(position + 1, reached)] if many else []
            for read in named if wild else [character if character in named else None]:
                following.append((position if many else position + 1, _step(other.tokens, reached, read)))
            for state in following:
                if state not in seen:
                    seen.add(state)
                    pending.append(state)
            if len(seen) > _LONGEST_SEARCH:
                return False
        return True

    def excludes(self, other: LikePattern) -> bool:
        """Whether no text matches both: the two patterns, walked in step, never reach both ends.

        >>> parse("%x").excludes(parse("%y")), parse("a%").excludes(parse("%b"))
        (True, False)
        """
        ours, theirs = self.tokens, other.tokens
        pending, seen = [(0, 0)], {(0, 0)}
        while pending:
            i, j = pending.pop()
            if i == len(ours) and j == len(theirs):
                return False
            following: list[tuple[int, int]] = []
            mine = ours[i] if i < len(ours) else None
            its = theirs[j] if j < len(theirs) else None
            if mine == (True, MANY):
                following.append((i + 1, j))
                if its is not None:
                    following.append((i, j + 1))
            if its == (True, MANY):
                following.append((i, j + 1))
                if mine is not None:
                    following.append((i + 1, j))
            if mine is not None and its is not None and (mine == its or (True, ANY) in (mine, its)):
                following.append((i + 1, j + 1))
            for state in following:
                if state not in seen:
                    seen.add(state)
                    pending.append(state)
            if len(seen) > _LONGEST_SEARCH:
                return False
        return True


def parse(text: str, escape: str = "\\") -> LikePattern:
    """A LIKE pattern by Spark's rules: the escape may stand only before ``_``, ``%`` or itself.

    >>> parse("50\\\\%").as_range() == IntervalSet.point(STRING, "50%")
    True
    """
    tokens: list[Token] = []
    characters = iter(text)
    for character in characters:
        if character == escape:
            escaped = next(characters, None)
            if escaped is None:
                raise ValueError(f"The LIKE pattern {text!r} ends with its escape character; Spark rejects that.")
            if escaped not in (ANY, MANY, escape):
                raise ValueError(
                    f"In the LIKE pattern {text!r} the escape stands before {escaped!r}; Spark rejects that."
                )
            tokens.append((False, escaped))
        else:
            tokens.append((character in (ANY, MANY), character))
    return LikePattern(tuple(tokens))


def pattern_of(match: Match) -> LikePattern:
    """What a Match node looks for."""
    if match.kind is MatchKind.LIKE:
        return parse(match.text, match.escape)
    many: tuple[Token, ...] = ((True, MANY),)
    fixed = tuple((False, character) for character in match.text)
    before = many if match.kind in (MatchKind.SUFFIX, MatchKind.CONTAINS) else ()
    after = many if match.kind in (MatchKind.PREFIX, MatchKind.CONTAINS) else ()
    return LikePattern(before + fixed + after)


def prefix_range(prefix: str) -> IntervalSet:
    """The strings that start with a prefix, by code point order (which is the order of valid UTF-8 bytes).

    >>> prefix_range("ab").intervals
    (Interval(low='ab', high='ac', low_closed=True, high_closed=False),)
    """
    after = successor(prefix)
    return IntervalSet(STRING, (Interval(prefix, after, high_closed=False),))


def _is_range(prefix: str) -> bool:
    """Whether the range of a prefix holds nothing else, even among bytes that are not valid UTF-8.

    Spark keeps such bytes as they are. Between U+007F and the next character lie byte strings that are neither, and
    ``NOT LIKE`` is TRUE for them: where the next character is not the next byte, the range only surrounds the prefix.
    """
    after = successor(prefix)
    if not prefix or after is None:
        return not prefix
    held = prefix.encode()
    return after.encode() == held[:-1] + bytes([held[-1] + 1])


def successor(prefix: str) -> str | None:
    """The least string above all strings that start with the prefix, or None if there is none."""
    trimmed = prefix.rstrip(_LAST_CHARACTER)
    if not trimmed:
        return None
    # U+D800 to U+DFFF are surrogates, which no text holds: the character after U+D7FF is U+E000.
    last = ord(trimmed[-1])
    return trimmed[:-1] + chr(0xE000 if last == 0xD7FF else last + 1)


def _leading_text(tokens: tuple[Token, ...]) -> str:
    fixed = ""
    for wild, character in tokens:
        if wild:
            break
        fixed += character
    return fixed


def _past_many(tokens: tuple[Token, ...], positions: frozenset[int]) -> frozenset[int]:
    """The positions, and those just past a MANY that may stand for nothing."""
    return positions | {p + 1 for p in positions if p < len(tokens) and tokens[p] == (True, MANY)}


def _step(tokens: tuple[Token, ...], positions: frozenset[int], read: str | None) -> frozenset[int]:
    """The positions in a pattern after one more character; None is one that the pattern does not name."""
    reached: set[int] = set()
    for position in positions:
        if position < len(tokens):
            wild, character = tokens[position]
            if (wild, character) == (True, MANY):
                reached.add(position)
            elif wild or character == read:
                reached.add(position + 1)
    return _past_many(tokens, frozenset(reached))
