"""Every link of the built pages to a local file, and to a place in it, leads somewhere.

``python docs/check_links.py docs/_build/html`` prints what does not, and then fails.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The links of a page, and the places that can be linked to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect what the tag refers to and what it is called."""
        for name, value in attrs:
            if value and name in ("href", "src"):
                self.links.append(value)
            elif value and (name == "id" or (name == "name" and tag == "a")):
                self.places.add(value)


def broken_links(folder: Path) -> list[str]:
    """One line for each link that leads nowhere."""
    # _static holds the theme's templates too, which are no pages.
    paths = [path for path in sorted(folder.rglob("*.html")) if "_static" not in path.parts]
    pages = {path.resolve(): Page(path) for path in paths}
    broken = []
    for path, page in pages.items():
        for link in dict.fromkeys(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            place = unquote(parts.fragment)
            if not target.is_file():
                broken.append(f"{path.relative_to(folder.resolve())}: no file {link}")
            elif place and target in pages and place not in pages[target].places:
                broken.append(f"{path.relative_to(folder.resolve())}: no place {link}")
    return broken


def main() -> None:
    """Check the folder named on the command line."""
    if len(sys.argv) != 2 or not Path(sys.argv[1], "index.html").is_file():
        sys.exit("a folder with an index.html was expected: docs/check_links.py docs/_build/html")
    broken = broken_links(Path(sys.argv[1]))
    if broken:
        sys.exit("\n".join(broken))
    print("every local link leads somewhere")


if __name__ == "__main__":
    main()
