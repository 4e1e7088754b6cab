"""Regular expressions from clients, matched in time linear in the text.

Kafka matches clients' patterns with RE2, which cannot be made to hang; Python's `re` can, with thirty characters. So
this builds a nondeterministic automaton and follows all its states at once. It supports what patterns for names use:
literals, `.`, classes, `\\d \\w \\s` and their complements, groups, `|`, `* + ? {m,n}` (also lazy) and anchors at the
ends. It refuses everything else, such as backreferences and look-around, which RE2 refuses, too. A match is always of
the whole text.
"""

from __future__ import annotations

from collections.abc import Callable

MAX_STATES = 250
"""What one character of a text may cost. RE2 takes 1,000, which here would be a tenth of a millisecond."""

MAX_DEPTH = 50

Test = Callable[[str], bool]

_CLASSES: dict[str, Test] = {
    "d": lambda c: "0" <= c <= "9",
    "w": lambda c: c.isascii() and (c.isalnum() or c == "_"),
    "s": lambda c: c in " \t\n\r\f\v",
}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f", "v": "\v"}


class PatternError(ValueError):
    """The pattern is invalid or not supported."""


class Pattern:
    """A compiled pattern. Raises PatternError."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0
        # For each state: the test of the next character, and the following states; without a test they follow at once.
        self._tests: list[Test | None] = []
        self._next: list[tuple[int, ...]] = []
        start, ends = self._alternatives()
        if self._at < len(text):
            raise PatternError(f"an unexpected {text[self._at]!r}")
        self._accept = self._state(None)
        self._join(ends, self._accept)
        self._start = start

    def matches(self, text: str) -> bool:
        """Whether the pattern describes all of `text`."""
        current = self._closure([self._start])
        for character in text:
            reached: list[int] = []
            for state in current:
                test = self._tests[state]
                if test is not None and test(character):
                    reached += self._next[state]
            current = self._closure(reached)
            if not current:
                return False
        return self._accept in current

    def _closure(self, states: list[int]) -> set[int]:
        found: set[int] = set()
        waiting = list(states)
        while waiting:
            state = waiting.pop()
            if state not in found:
                found.add(state)
                if self._tests[state] is None:
                    waiting += self._next[state]
        return found

    # Building: a piece is (its first state, the states that lead out of it)

    def _state(self, test: Test | None) -> int:
        if len(self._tests) >= MAX_STATES:
            raise PatternError("too large")
        self._tests.append(test)
        self._next.append(())
        return len(self._tests) - 1

    def _join(self, states: list[int], target: int) -> None:
        for state in states:
            self._next[state] = (*self._next[state], target)

    # Parsing

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _take(self) -> str:
        taken = self._peek()
        if not taken:
            raise PatternError("it ends too early")
        self._at += 1
        return taken

    def _alternatives(self) -> tuple[int, list[int]]:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise PatternError("too deep")
        fork = self._state(None)
        ends: list[int] = []
        while True:
            start, more = self._sequence()
            self._join([fork], start)
            ends += more
            if self._peek() != "|":
                break
            self._at += 1
        self._depth -= 1
        return fork, ends

    def _sequence(self) -> tuple[int, list[int]]:
        start = self._state(None)
        ends = [start]
        while self._peek() not in ("", "|", ")"):
            first, more = self._repeated()
            self._join(ends, first)
            ends = more
        return start, ends

    def _repeated(self) -> tuple[int, list[int]]:
        begin = self._at
        piece = self._atom()
        end = self._at
        quantifier = self._quantifier()
        if quantifier is None:
            return piece
        least, most = quantifier
        start = self._state(None)
        ends, skips = [start], []
        for number in range(max(least, most or 1)):
            if number:  # the piece once more: it is parsed again
                after, self._at = self._at, begin
                piece = self._atom()
                assert self._at == end
                self._at = after
            if number >= least:
                skips += ends
            self._join(ends, piece[0])
            ends = piece[1]
            if most is None and number == max(least, 1) - 1:
                self._join(ends, piece[0])
        if least == 0 and most == 0:
            return start, [start]
        return start, [*ends, *skips]

    def _quantifier(self) -> tuple[int, int | None] | None:
        """(at least, at most); None for no quantifier, `most` None for no limit."""
        found: tuple[int, int | None]
        match self._peek():
            case "*":
                found = 0, None
            case "+":
                found = 1, None
            case "?":
                found = 0, 1
            case "{":
                return self._counted()
            case _:
                return None
        self._at += 1
        self._lazy()
        return found

    def _counted(self) -> tuple[int, int | None]:
        self._at += 1
        inside = ""
        while (taken := self._take()) != "}":
            inside += taken
        least, comma, most = inside.partition(",")
        if not least.isdigit() or len(inside) > 9 or (most and not most.isdigit()):
            raise PatternError(f"a repetition of {{{inside}}}")
        found = int(least), (int(most) if most else None) if comma else int(least)
        if max(found[0], found[1] or 0) > MAX_STATES or (found[1] is not None and found[1] < found[0]):
            raise PatternError(f"a repetition of {{{inside}}}")
        self._lazy()
        return found

    def _lazy(self) -> None:
        """A lazy repetition matches the same texts."""
        if self._peek() == "?":
            self._at += 1
        if self._peek() in ("*", "+", "?", "{") and self._peek():
            raise PatternError("a repetition of a repetition")

    def _atom(self) -> tuple[int, list[int]]:
        taken = self._take()
        if taken == "(":
            if self._peek() == "?":
                self._at += 1
                if self._take() != ":":
                    raise PatternError("a group of a kind that is not understood")
            piece = self._alternatives()
            if self._take() != ")":
                raise PatternError("a group that does not end")
            return piece
        if taken in "*+?{":
            raise PatternError(f"nothing to repeat before {taken!r}")
        if taken in "^$":
            return self._anchor(at_start=taken == "^")
        state = self._state(self._test(taken))
        return state, [state]

    def _anchor(self, *, at_start: bool) -> tuple[int, list[int]]:
        """The whole text is matched, so that anchors hold at its ends; elsewhere nothing can match."""
        outer = self._depth == 1
        is_end = self._at == len(self._text)
        if outer and ((at_start and self._at == 1) or (not at_start and is_end)):
            state = self._state(None)
            return state, [state]
        raise PatternError("an anchor within")

    def _test(self, taken: str) -> Test:
        if taken == ".":
            return lambda c: c != "\n"
        if taken == "[":
            return self._class()
        return self._escape() if taken == "\\" else _is(taken)

    def _escape(self) -> Test:
        taken = self._take()
        if taken.lower() in _CLASSES:
            test = _CLASSES[taken.lower()]
            return test if taken.islower() else lambda c: not test(c)
        if taken in _ESCAPES:
            return _is(_ESCAPES[taken])
        if taken.isalnum():
            raise PatternError(f"\\{taken} is not understood")
        return _is(taken)

    def _class(self) -> Test:
        negated = self._peek() == "^"
        if negated:
            self._at += 1
        tests: list[Test] = []
        while (taken := self._take()) != "]" or not tests:
            if taken == "[":
                raise PatternError("a class within a class")
            if taken == "\\":
                tests.append(self._escape())
            elif self._peek() == "-" and self._text[self._at + 1 : self._at + 2] not in ("", "]"):
                self._at += 1
                last = self._take()
                if last in "\\[" or last < taken:
                    raise PatternError(f"a range from {taken!r} to {last!r}")
                tests.append(_between(taken, last))
            else:
                tests.append(_is(taken))
        return lambda c: any(test(c) for test in tests) != negated


def _is(character: str) -> Test:
    return lambda c: c == character


def _between(first: str, last: str) -> Test:
    return lambda c: first <= c <= last
