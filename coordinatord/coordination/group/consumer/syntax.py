"""The patterns that Kafka accepts: those that RE2/J 1.8 parses
(com.google.re2j.Parser), with RE2/J's messages for others.

RE2 itself accepts a little more (\\C, scripts of newer Unicode versions, group names beyond ASCII), and has other error
messages. So a pattern is parsed here first. The result is an equivalent pattern in a form that RE2 accepts, too.

No tree is built: for a repetition the parser checks only whether an operand precedes it, and for a parenthesis whether
one is open. Time and memory grow with the pattern's length.
"""

from __future__ import annotations

BAD_RANGE = "invalid character class range"
BAD_ESCAPE = "invalid escape sequence"
BAD_NAME = "invalid named capture"
SAME_NAME = "duplicate capture group name"
BAD_FLAGS = "invalid or unsupported Perl syntax"
REPEATED_REPEAT = "invalid nested repetition operator"
BAD_COUNT = "invalid repeat count"
NO_BRACKET = "missing closing ]"
NO_PARENTHESIS = "missing closing )"
SURPLUS_PARENTHESIS = "regexp/syntax: internal error"
NOTHING_TO_REPEAT = "missing argument to repetition operator"
LAST_BACKSLASH = "trailing backslash at end of expression"

TOO_LARGE = "expression too large"
"""coordinatord's own message: RE2/J rejects no pattern for its size."""

MAX_UNICODE_CLASSES = 50
"""Maximum number of `\\pL` and other Unicode classes in a pattern: RE2 needs 0.2 ms for each."""

_LARGEST_COUNT = 1_000
_LONGEST_COUNT = 8
_LAST_RUNE = 0x10FFFF
_END = ""
_OCTAL = frozenset("01234567")
_DIGITS = frozenset("0123456789")
_HEX = frozenset("0123456789abcdefABCDEF")
_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_NAME = _LETTERS | _DIGITS | {"_"}
_ASSERTIONS = frozenset("AbBz")
_PERL_CLASSES = frozenset("dDsSwW")
_SINGLE = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_FLAGS = frozenset("imsU")

_POSIX_NAMES = "alnum alpha ascii blank cntrl digit graph lower print punct space upper word xdigit"
_UNICODE_NAMES = """
Any Lu Ll Lt Lm Lo Mn Me Mc Nd Nl No Zs Zl Zp Cc Cf Co Cs Pd Ps Pe Pc Po Sm Sc Sk So Pi Pf P S C Z L M N
Arabic Armenian Avestan Balinese Bamum Batak Bengali Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal
Carian Cham Cherokee Common Coptic Cuneiform Cypriot Cyrillic Deseret Devanagari Egyptian_Hieroglyphs Ethiopic
Georgian Glagolitic Gothic Greek Gujarati Gurmukhi Han Hangul Hanunoo Hebrew Hiragana Imperial_Aramaic Inherited
Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kayah_Li Kharoshthi Khmer Lao Latin
Lepcha Limbu Linear_B Lisu Lycian Lydian Malayalam Mandaic Meetei_Mayek Mongolian Myanmar New_Tai_Lue Nko Ogham
Ol_Chiki Old_Italic Old_Persian Old_South_Arabian Old_Turkic Oriya Osmanya Phags_Pa Phoenician Rejang Runic
Samaritan Saurashtra Shavian Sinhala Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Tamil
Telugu Thaana Thai Tibetan Tifinagh Ugaritic Unknown Vai Yi
"""
_POSIX_CLASSES = frozenset(_POSIX_NAMES.split())
_UNICODE_CLASSES = frozenset(_UNICODE_NAMES.split())
_UNKNOWN = "Unknown"
_UNKNOWN_TO_RE2 = "Co"
"""Replacement for the script Unknown: private-use runes do not occur in topic names either."""


class PatternSyntaxError(Exception):
    """RE2/J cannot parse the pattern; the text is RE2/J's description of the error."""


def for_re2(pattern: str) -> str:
    """Return the pattern for RE2; raises PatternSyntaxError if RE2/J rejects it."""
    return _Reader(pattern).read()


class _Reader:
    """Parser of a pattern, from left to right."""

    def __init__(self, pattern: str) -> None:
        self.text = pattern
        self.at = 0
        self.written: list[str] = []
        self.copied = 0
        """The text before this position has been written."""
        self.depth = 0
        self.names: set[str] = set()
        self.unicode_classes = 0
        self.can_repeat = False
        """An operand for a repetition precedes this position."""
        self.repeated = False
        """A repetition directly precedes this position."""

    def read(self) -> str:
        """Parse the whole pattern."""
        while self.at < len(self.text):
            repeated, self.repeated = self.repeated, False
            self._item(self.text[self.at], repeated)
        if self.depth:
            raise PatternSyntaxError(NO_PARENTHESIS)
        return "".join([*self.written, self.text[self.copied :]])

    def _write(self, instead_from: int, text: str) -> None:
        """Write `text` in place of the input between a position and the current one."""
        self.written += [self.text[self.copied : instead_from], text]
        self.copied = self.at

    def _item(self, first: str, repeated: bool) -> None:
        """Parse one item; `repeated`: a repetition precedes it."""
        if first == "(":
            self._open()
        elif first == "|":
            self.at += 1
            self.can_repeat = False
        elif first == ")":
            if not self.depth:
                raise PatternSyntaxError(SURPLUS_PARENTHESIS)
            self.at += 1
            self.depth -= 1
            self.can_repeat = True
        elif first in "*+?":
            self.at += 1
            self._repeat(repeated)
        elif first == "{":
            if self._count():
                self._repeat(repeated)
            else:  # a literal brace, which yet counts as a repetition for the next item
                self.at += 1
                self.can_repeat = self.repeated = True
        elif first == "[":
            self._class()
            self.can_repeat = True
        elif first == "\\":
            self._backslash()
        else:
            self.at += 1
            self.can_repeat = True

    def _peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else _END

    def _repeat(self, repeated: bool) -> None:
        if self._peek() == "?":
            self.at += 1
        if repeated:
            raise PatternSyntaxError(REPEATED_REPEAT)
        if not self.can_repeat:
            raise PatternSyntaxError(NOTHING_TO_REPEAT)
        self.repeated = True

    def _count(self) -> bool:
        """Skip `{2}`, `{2,}` or `{2,3}`. Return False if the text is no count, so that the brace is a literal."""
        end = self.text.find("}", self.at)
        least, comma, most = self.text[self.at + 1 : end].partition(",")
        if end < 0 or not _is_count(least) or (most and not _is_count(most)):
            return False
        numbers = [least, most] if most else [least]
        if any(len(each) > _LONGEST_COUNT or int(each) > _LARGEST_COUNT for each in numbers):
            raise PatternSyntaxError(BAD_COUNT)
        if comma and most and int(least) > int(most):
            raise PatternSyntaxError(BAD_COUNT)
        self.at = end + 1
        return True

    def _open(self) -> None:
        """Skip `(`, `(?:`, `(?P<name>` or flags."""
        if not self.text.startswith("(?", self.at):
            self.at += 1
        elif self.text.startswith(("(?P<", "(?<"), self.at):
            self._name()
        elif not self._flags():
            return
        self.depth += 1
        self.can_repeat = False

    def _name(self) -> None:
        begin = self.text.index("<", self.at) + 1
        end = self.text.find(">", begin)
        name = self.text[begin:end]
        if end < 0 or not name or not _NAME.issuperset(name):
            raise PatternSyntaxError(BAD_NAME)
        if name in self.names:
            raise PatternSyntaxError(SAME_NAME)
        self.names.add(name)
        self.at = end + 1

    def _flags(self) -> bool:
        """Skip flags. Return True if they open a group."""
        self.at += 2
        negative = seen = False
        while first := self._peek():
            self.at += 1
            if first in _FLAGS:
                seen = True
            elif first == "-" and not negative:
                negative, seen = True, False
            elif first in ":)" and (seen or not negative):
                return first == ":"
            else:
                break
        raise PatternSyntaxError(BAD_FLAGS)

    def _backslash(self) -> None:
        """Skip an escape outside of a class."""
        kind = self.text[self.at + 1 : self.at + 2]
        if kind == "Q":
            self._quoted()
            return
        self.can_repeat = True
        if kind and (kind in _ASSERTIONS or kind in _PERL_CLASSES):
            self.at += 2
        elif kind and kind in "pP":
            self._unicode_class()
        else:
            self._escape()

    def _quoted(self) -> None:
        """Skip `\\Q…\\E`, whose end may be missing."""
        end = self.text.find("\\E", self.at + 2)
        literal = self.text[self.at + 2 : end if end >= 0 else len(self.text)]
        self.at = end + 2 if end >= 0 else len(self.text)
        self.can_repeat = self.can_repeat or bool(literal)

    def _escape(self) -> int:
        """Skip an escape that stands for one rune, which is written and returned."""
        begin = self.at
        rune = self._escaped()
        self._write(begin, f"\\x{{{rune:x}}}")
        return rune

    def _escaped(self) -> int:
        kind = self.text[self.at + 1 : self.at + 2]
        self.at += 2
        if kind == _END:
            raise PatternSyntaxError(LAST_BACKSLASH)
        if kind not in _LETTERS and kind not in _DIGITS:
            return ord(kind)
        if kind in _SINGLE:
            return _SINGLE[kind]
        if kind == "x":
            return self._hexadecimal()
        if kind == "0" or (kind in _OCTAL and self._peek() in _OCTAL):  # else it refers to a group
            value = int(kind)
            for _ in range(2):
                if self._peek() not in _OCTAL:
                    break
                value = value * 8 + int(self._peek())
                self.at += 1
            return value
        raise PatternSyntaxError(BAD_ESCAPE)

    def _hexadecimal(self) -> int:
        if self._peek() == "{":
            end = self.text.find("}", self.at)
            digits = self.text[self.at + 1 : end].lstrip("0") or "0"
            if end < self.at + 2 or not _HEX.issuperset(digits) or len(digits) > 6 or int(digits, 16) > _LAST_RUNE:
                raise PatternSyntaxError(BAD_ESCAPE)
            self.at = end + 1
            return int(digits, 16)
        digits = self.text[self.at : self.at + 2]
        if len(digits) < 2 or not _HEX.issuperset(digits):
            raise PatternSyntaxError(BAD_ESCAPE)
        self.at += 2
        return int(digits, 16)

    def _unicode_class(self) -> None:
        """Skip `\\pN` or `\\p{Greek}`."""
        begin = self.at + 2
        if self.text[begin : begin + 1] == "{":
            end = self.text.find("}", begin)
            name = self.text[begin + 1 : end].removeprefix("^")
            self.at = end + 1
        else:
            end = begin
            name = self.text[begin : begin + 1]
            self.at = begin + 1
        if end < 0 or name not in _UNICODE_CLASSES:
            raise PatternSyntaxError(BAD_RANGE)
        self.unicode_classes += 1
        if self.unicode_classes > MAX_UNICODE_CLASSES:
            raise PatternSyntaxError(TOO_LARGE)
        if name == _UNKNOWN:
            self._write(begin, self.text[begin : self.at].replace(_UNKNOWN, _UNKNOWN_TO_RE2))

    def _class(self) -> None:
        """Skip `[…]`."""
        self.at += 1
        if self._peek() == "^":
            self.at += 1
        first = True
        while first or self._peek() != "]":
            first = False
            if self.text.startswith("[:", self.at) and self._posix_class():
                continue
            if self.text.startswith(("\\p", "\\P"), self.at):
                self._unicode_class()
            elif self._peek() == "\\" and self.text[self.at + 1 : self.at + 2] in _PERL_CLASSES:
                self.at += 2
            else:
                self._range()
        self.at += 1

    def _posix_class(self) -> bool:
        """Skip `[:alpha:]`. Return False if no such class ends anywhere, so that the bracket is a literal."""
        end = self.text.find(":]", self.at)
        if end < 0:
            return False
        if self.text[self.at + 2 : end].removeprefix("^") not in _POSIX_CLASSES:
            raise PatternSyntaxError(BAD_RANGE)
        self.at = end + 2
        return True

    def _range(self) -> None:
        """Skip `a`, or `a-z`."""
        low = self._class_rune()
        if self._peek() == "-" and self.text[self.at + 1 : self.at + 2] != "]":
            self.at += 1
            if self._class_rune() < low:
                raise PatternSyntaxError(BAD_RANGE)

    def _class_rune(self) -> int:
        first = self._peek()
        if first == _END:
            raise PatternSyntaxError(NO_BRACKET)
        if first == "\\":
            return self._escape()
        self.at += 1
        return ord(first)


def _is_count(text: str) -> bool:
    """Return whether the text is a number without a sign or leading zeros."""
    return bool(text) and _DIGITS.issuperset(text) and (text == "0" or text[0] != "0")
