"""Selectors as text: the JMS subset of SQL-92, as Qpid has it, and the tree that a text stands for.

A selector is a condition on what a message is: names, numbers, 'text', TRUE and FALSE; =, <>, <, <=, >, >=; + - * / and
signs; AND, OR, NOT; [NOT] BETWEEN, [NOT] IN, [NOT] LIKE with ESCAPE, IS [NOT] NULL; parentheses. Words may be in
capitals or not; of names it matters. What it means of a message is `selector.py`'s.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, NamedTuple

from lark import Lark
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from ..errors import INVALID, PeerError

CHARS = 4096
"""Longest selector, in characters."""
DEPTH = 100
"""How deep a selector may nest."""


class Expression(NamedTuple):
    """Attributes: kind, a rule of the grammar; parts: nodes, or values of a leaf; depth of what is below it."""

    kind: str
    parts: tuple[Any, ...]
    depth: int = 1


def parse(text: str) -> Expression:
    """The tree of a selector.

    Raises:
        PeerError: `invalid`, it is none: where, and what could stand there.
    """
    if len(text) > CHARS:
        raise PeerError(INVALID, f"a selector has at most {CHARS} characters, this one {len(text)}: shorten it")
    try:
        tree = _parser().parse(text)
    except UnexpectedInput as error:
        raise _wrong(text, error) from None
    if tree.depth > DEPTH:
        raise PeerError(
            INVALID, f"a selector nests at most {DEPTH} deep, this one {tree.depth}: leave parentheses away"
        )
    return tree


def refused(column: int, why: str) -> PeerError:
    """`invalid`: a selector is wrong at a column, counted from 1."""
    return PeerError(INVALID, f"the selector is wrong at column {column}: {why}")


_GRAMMAR = r"""
?disjunction: conjunction (_OR conjunction)*
?conjunction: inversion (_AND inversion)*
?inversion: _NOT inversion -> negation
    | condition
?condition: sum
    | sum COMPARISON sum -> comparison
    | sum _BETWEEN sum _AND sum -> between
    | sum _NOT _BETWEEN sum _AND sum -> not_between
    | sum _IN "(" sum ("," sum)* ")" -> among
    | sum _NOT _IN "(" sum ("," sum)* ")" -> not_among
    | sum _LIKE TEXT (_ESCAPE TEXT)? -> like
    | sum _NOT _LIKE TEXT (_ESCAPE TEXT)? -> not_like
    | sum _IS _NULL -> null
    | sum _IS _NOT _NULL -> not_null
?sum: product (SIGN product)*
?product: signed (FACTOR signed)*
?signed: SIGN signed -> sign
    | operand
?operand: NAME -> name
    | QUOTED -> quoted
    | TEXT -> text
    | WHOLE -> whole
    | FRACTION -> fraction
    | _TRUE -> true
    | _FALSE -> false
    | "(" disjunction ")" -> parenthesis

_OR: "OR"i
_AND: "AND"i
_NOT: "NOT"i
_BETWEEN: "BETWEEN"i
_IN: "IN"i
_LIKE: "LIKE"i
_ESCAPE: "ESCAPE"i
_IS: "IS"i
_NULL: "NULL"i
_TRUE: "TRUE"i
_FALSE: "FALSE"i
COMPARISON: "<=" | ">=" | "<>" | "=" | "<" | ">"
SIGN: "+" | "-"
FACTOR: "*" | "/"
NAME: /[^\W\d][\w.$]*|[$][\w.$]*/i
QUOTED: /"(?:[^"]|"")+"/
TEXT: /'(?:[^']|'')*'/
FRACTION.2: /(?:[0-9]+[.][0-9]*|[.][0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?|[0-9]+(?:[eE][+-]?[0-9]+[fFdD]?|[fFdD])/
WHOLE: /[0-9]+[lL]?/
%ignore /[ \t\r\n\f]+/
"""


def _node(kind: str, children: list[Any]) -> Expression:
    deepest = max((child.depth for child in children if isinstance(child, Expression)), default=0)
    return Expression(kind, tuple(children), deepest + 1)


_INNER = (
    "disjunction", "conjunction", "negation", "comparison", "between", "not_between", "among", "not_among", "like",
    "not_like", "null", "not_null", "sum", "product", "sign", "parenthesis",
)  # fmt: skip
_LEAVES: dict[str, Callable[[list[Any]], Expression]] = {
    "name": lambda found: Expression("name", (str(found[0]), column_of(found[0]))),
    "quoted": lambda found: Expression("quoted", (unquoted(found[0]),)),
    "text": lambda found: Expression("value", (unquoted(found[0]),)),
    "whole": lambda found: Expression("value", (int(found[0].rstrip("lL")),)),
    "fraction": lambda found: Expression("value", (float(found[0].rstrip("fFdD")),)),
    "true": lambda found: Expression("value", (True,)),
    "false": lambda found: Expression("value", (False,)),
}


def column_of(token: Any) -> int:
    """Where a token of the text begins, from 1."""
    return (token.start_pos or 0) + 1


def unquoted(token: str) -> str:
    """What stands between quotes, of which two in it are one."""
    return token[1:-1].replace(token[0] * 2, token[0])


@cache
def _parser() -> Any:
    """Made when the first selector comes: most processes see none."""
    makers: Any = SimpleNamespace(**{kind: partial(_node, kind) for kind in _INNER}, **_LEAVES)
    return Lark(
        _GRAMMAR, start="disjunction", parser="lalr", lexer="basic", transformer=makers, maybe_placeholders=False
    )


_OPERAND = "a name, a number, a text in '...', TRUE, FALSE, NOT or a parenthesis"


def _wrong(text: str, error: UnexpectedInput) -> PeerError:
    if isinstance(error, UnexpectedCharacters):
        column = error.pos_in_stream + 1
        found = text[error.pos_in_stream]
        if found == "'":
            return refused(column, "a text begins here and has no end: write ' behind it, and '' for a quote in it")
        if found == '"':
            return refused(column, 'a name begins here and has no end: write " behind it; texts are in single quotes')
        return refused(column, f"{found!r} means nothing in a selector: a text is in '...', a name of such in \"...\"")
    if isinstance(error, UnexpectedToken):
        token, expected = error.token, set(error.accepts or error.expected)
        if token.type == "$END":
            column, what = len(text) + 1, "it ends"
        else:
            column, what = column_of(token), f"{str(token)!r} stands"
        if token == ")" and "RPAR" not in expected and "NAME" not in expected:
            return refused(column, "this ) has no ( before it")
        return refused(column, f"{what} where {_due(expected)} must follow")
    return refused(len(text) + 1, "it is not finished")


def _due(expected: set[str]) -> str:
    """What could stand there, in words."""
    if "NAME" in expected:
        return _OPERAND
    if "_NULL" in expected:
        return "NULL or NOT NULL"
    if expected == {"TEXT"}:
        return "a text in '...'"
    if "COMPARISON" not in expected and "_LIKE" in expected:
        return "BETWEEN, IN or LIKE"
    if expected == {"LPAR"}:
        return "a list in parentheses"
    words = ["a comparison (=, <>, <, <=, >, >=, IS, IN, LIKE, BETWEEN)"] if "COMPARISON" in expected else []
    words += ["+, -, *, /"] if {"SIGN", "FACTOR"} & expected else []
    words += ["ESCAPE"] if "_ESCAPE" in expected else []
    words += [word for token, word in (("_AND", "AND"), ("_OR", "OR")) if token in expected]
    words += ["a comma"] if "COMMA" in expected else []
    words += [")"] if "RPAR" in expected else []
    return (", ".join(words) or "AND, OR") + (" or the end" if "$END" in expected else "")
