"""MkDocs hook: pages that are not written by hand, and links that leave docs/.

- reference/cli.md gets every command, rendered from the objects that parse it.
- tutorials/notebook.md is rendered from the notebook, with the outputs that it holds.
- The Markdown files of results/ become pages, with their pictures. A link to any other file outside docs/ becomes the
  file's path as text, since the site holds no source code. In the repository all these links are ordinary relative
  links.
"""

import base64
import html
import json
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from mkdocs.structure.files import File, Files

from laddernet.cli.main import app

ROOT = Path(__file__).parent.parent
COMMANDS = "reference/cli.md"
NOTEBOOK = "tutorials/notebook.ipynb"
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s:#]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages, and the pages and pictures of results/."""
    book, pictures = notebook(json.loads((ROOT / "docs" / NOTEBOOK).read_text("utf-8")))
    files.append(File.generated(config, "tutorials/notebook.md", content=book))
    for name, content in pictures.items():
        files.append(File.generated(config, f"tutorials/{name}", content=content))
    for path in sorted(path for path in (ROOT / "results").rglob("*") if path.suffix in (".md", ".png")):
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Point every link at its page; one to a file that is not in the site becomes text."""
    source = page.file.src_uri
    if source == COMMANDS:
        markdown += command_line()
    here = source if source.startswith("results/") else f"docs/{source}"  # in the repository

    def moved(found: re.Match[str]) -> str:
        text, target, anchor = found.group(1), found.group(2), found.group(3) or ""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(here), target))
        if path == f"docs/{NOTEBOOK}" and source != "tutorials/notebook.md":
            path = path.removesuffix(".ipynb") + ".md"
        inside = path.removeprefix("docs/") if path.startswith("docs/") else path
        if files.get_file_from_path(inside) and (path.startswith("docs/") or path.startswith("results/")):
            return f"[{text}]({posixpath.relpath(inside, posixpath.dirname(source) or '.')}{anchor})"
        if path.startswith(("docs/", "..")) or not (ROOT / path).exists():
            return found.group(0)  # a mistake, of which MkDocs warns
        bare = text.strip("`")
        return f"`{path}`" if path.endswith(bare.rstrip("/")) else f"{text} (`{path}`)"

    return "".join(part if code else _LINK.sub(moved, part) for code, part in _parts(markdown))


def _parts(markdown: str) -> Iterator[tuple[bool, str]]:
    """The text in order, cut into blocks of code (True) and all else."""
    for part in re.split(r"(^```.*?^```$)", markdown, flags=re.MULTILINE | re.DOTALL):
        yield part.startswith("```"), part


# --- The command line ------------------------------------------------------------------------------------------------


def command_line() -> str:
    """A section for each command: usage, arguments and options."""
    group: Any = typer.main.get_command(app)
    parts = [""]
    with group.make_context("laddernet", ["models"]) as context:
        for name in group.list_commands(context):
            command = group.resolve_command(context, [name])[1]
            parts += _command(command, context)
    return "\n\n".join(parts) + "\n"


def _command(command: Any, parent: Any) -> list[str]:
    with type(parent)(command, info_name=command.name, parent=parent) as context:
        usage = f"laddernet {command.name} {' '.join(command.collect_usage_pieces(context))}"
        parts = [f"## {command.name}", f"```text\n{usage}\n```"]
        parts += [" ".join(paragraph.split()) for paragraph in (command.help or "").split("\n\n")]
        for kind in ("argument", "option"):
            records = [param.get_help_record(context) for param in command.params if param.param_type_name == kind]
            rows = [f"| {_name(record[0])} | {_cell(record[1])} |" for record in records if record]
            if rows:
                parts.append("\n".join([f"| {kind} | meaning |", "|---|---|", *rows]))
        return parts


def _name(name: str) -> str:
    return f"`{' '.join(name.split())}`".replace("|", "\\|")


def _cell(text: str) -> str:
    return html.escape(" ".join(text.split()), quote=False).replace("|", "\\|").replace("[", "\\[")


# --- The notebook ----------------------------------------------------------------------------------------------------


def notebook(book: dict[str, Any]) -> tuple[str, dict[str, bytes]]:
    """A notebook as Markdown, and its pictures by name."""
    parts, pictures = [], {}
    for cell in book["cells"]:
        source = "".join(cell["source"])
        parts.append(f"```python\n{source}\n```" if cell["cell_type"] == "code" else source)
        for output in cell.get("outputs", []):
            data = output.get("data", {"text/plain": output.get("text", "")})
            if "image/png" in data:
                name = f"notebook-{len(pictures)}.png"
                pictures[name] = base64.b64decode("".join(data["image/png"]))
                parts.append(f"![Output of the cell above]({name})")
            else:
                text = "".join(data["text/plain"]).rstrip("\n")
                parts.append(f"```text\n{text}\n```")
    title, *rest = parts[0].split("\n", 1)
    parts[0] = "\n\n".join([title, "[Download the notebook](notebook.ipynb).", *rest])
    return "\n\n".join(parts) + "\n", pictures
