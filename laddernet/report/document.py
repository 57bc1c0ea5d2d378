"""One self-contained HTML document: a template of Jinja2, the data as JSON, scripts and styles, all inline.

Text of a user is escaped by the template, or is in JSON that no markup can end. A Content-Security-Policy allows only
the document's own scripts and styles, and no request.
"""

import base64
import hashlib
import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

import jinja2

_LIBRARIES = ("vendor/d3.min.js", "vendor/plot.min.js")  # with their licences beside them
# Observable Plot adds this style to each chart of class "plot"; it is a constant of the library's version.
_PLOT_STYLE = """:where(.plot) {
  --plot-background: white;
  display: block;
  height: auto;
  height: intrinsic;
  max-width: 100%;
}
:where(.plot text),
:where(.plot tspan) {
  white-space: pre;
}"""


def document(template: str, scripts: Sequence[str], data: Mapping[str, Any], **values: Any) -> str:
    """Render a template with its data; the scripts share one scope, in their order.

    >>> text = document("study.html", [], {"curves": {"</script>": math.nan}}, title="<b>")
    >>> "<title>&lt;b&gt;</title>" in text, '{"\\\\u003c/script\\\\u003e":null}' in text
    (True, True)
    """
    style = _asset("page.css")
    own = "\n".join(['"use strict";', "(() => {", *map(_asset, scripts), "})();"])
    inline = [*map(_asset, _LIBRARIES), own]
    text = (
        _environment()
        .get_template(template)
        .render(
            policy=f"default-src 'none'; script-src {_allowed(*inline)}; style-src {_allowed(style, _PLOT_STYLE)}; "
            "img-src data:; base-uri 'none'; form-action 'none'",
            style=style,
            data=_finite(data),
            scripts=inline,
            **values,
        )
    )
    return text.encode(errors="replace").decode()  # a name may have bytes that are not UTF-8


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("laddernet.report", "assets"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return environment


@cache
def _asset(name: str) -> str:
    return resources.files("laddernet.report").joinpath("assets", name).read_text("utf-8")


def _allowed(*texts: str) -> str:
    """Name inline scripts or styles by their hashes, as a Content-Security-Policy does."""
    hashes = (base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in texts)
    return " ".join(f"'sha256-{each}'" for each in hashes)


def _finite(value: Any) -> Any:
    """Replace NaN and infinity, which JSON does not have, by None."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value
