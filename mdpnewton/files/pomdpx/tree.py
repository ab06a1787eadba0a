"""The elements of an XML text, without document types, entities or anything from outside."""

from dataclasses import dataclass
from typing import Any, NoReturn
from xml.parsers import expat

MOST_DEPTH, MOST_ELEMENTS = 40, 5_000_000


class POMDPXError(ValueError):
    """What is wrong with a POMDPX text, and where: `source:line: rule`."""


@dataclass
class Element:
    """An element of XML.

    Attributes:
        tag: Its name.
        line: Number of the line that it begins in.
        attributes: Its attributes.
        children: The elements in it.
        text: The text in it.
        source: Name of the whole text in errors.
    """

    tag: str
    line: int
    attributes: dict[str, str]
    children: list["Element"]
    text: str = ""
    source: str = ""

    def fail(self, rule: str) -> NoReturn:
        """Raise the error of a rule that this element breaks."""
        raise POMDPXError(f"{self.source}:{self.line}: {rule}.")

    def all(self, *tags: str) -> list["Element"]:
        """The elements in it with these names."""
        return [child for child in self.children if child.tag in tags]


def tree(text: str, source: str) -> Element:
    """The outermost element of a text.

    Args:
        text: The whole text.
        source: Name of the text in errors.

    Raises:
        POMDPXError: The text is no XML, or has a document type or an entity.
    """
    root = Element("", 0, {}, [])
    stack, count = [root], 0
    parser = expat.ParserCreate("utf-8")

    def fail(rule: str) -> NoReturn:
        raise POMDPXError(f"{source}:{parser.CurrentLineNumber}: {rule}.")

    def begun(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if len(stack) > MOST_DEPTH or count > MOST_ELEMENTS:
            fail("has too many elements, or too deep ones")
        element = Element(tag, parser.CurrentLineNumber, attributes, [], source=source)
        stack[-1].children.append(element)
        stack.append(element)

    def refused(*_: Any) -> NoReturn:
        fail("has a document type or an entity, which are not read; remove the DOCTYPE")

    def text_of(data: str) -> None:
        pieces.setdefault(id(stack[-1]), []).append(data)

    def ended(tag: str) -> None:
        element = stack.pop()
        element.text = "".join(pieces.pop(id(element), []))

    pieces: dict[int, list[str]] = {}
    parser.StartElementHandler, parser.EndElementHandler = begun, ended
    parser.CharacterDataHandler = text_of
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refused
    parser.ExternalEntityRefHandler = parser.UnparsedEntityDeclHandler = refused
    parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
    try:
        parser.Parse(text.encode(), True)
    except expat.ExpatError as error:
        reason = expat.errors.messages[error.code]
        raise POMDPXError(f"{source}:{error.lineno}: is no whole XML: {reason}.") from None
    return root.children[0]
