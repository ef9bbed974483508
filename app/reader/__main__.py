"""`python -m app.reader`: make the font and every payload now, so that the first start is quick."""

from app.models import readable
from app.reader.font import packed as packed_font
from app.reader.payload import packed


def main() -> None:
    packed_font()
    for model in readable():
        packed(model)


if __name__ == "__main__":
    main()
