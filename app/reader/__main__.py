"""`python -m app.reader`: make font, payloads and comparisons now, for a quick first start."""

from annotations.changes import PAIRS
from app.models import readable
from app.reader import compare_page
from app.reader.font import packed as packed_font
from app.reader.payload import packed


def main() -> None:
    packed_font()
    for model in readable():
        packed(model)
    for pair in PAIRS:
        compare_page.packed(*pair)


if __name__ == "__main__":
    main()
