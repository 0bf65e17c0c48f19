"""Small tables of one's own, for the tests that learn from one."""


def write_table(folder, rows=60):
    """Write a table of what people say, in two classes that one word tells apart; return its path."""
    things, ends = ("film", "play", "book"), ("today", "again", "in town", "at home", "for once")
    said = [
        f"a {word} {thing} {end}"
        for end in ends
        for thing in things
        for word in ("good", "bad", "fine", "poor")
    ]
    lines = ["text;label;source;target"]
    for text in said[:rows]:
        label = "like" if text.split()[1] in ("good", "fine") else "dislike"
        lines.append(f"{text};{label};{text};{' '.join(reversed(text.split()))}")
    path = folder / "films.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def write_grouped_table(folder, texts=80):
    """Write a table of two classes in which each text stands three times; return its path.

    Its numbers have zeros in front then, and such texts stand in one split.
    """
    rows = [
        f"a {('good', 'bad')[number % 2]} film of number {zeros}{number},{('like', 'dislike')[number % 2]}"
        for number in range(texts)
        for zeros in ("", "0", "00")
    ]
    path = folder / "grouped.csv"
    path.write_text("\n".join(["text,label", *rows]), encoding="utf-8")
    return path
