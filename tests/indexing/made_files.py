"""Makes small files of the formats that loaders read."""

from __future__ import annotations

import io
import zipfile

NAMESPACE = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
STRICT = "http://purl.oclc.org/ooxml/wordprocessingml/main"
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def docx(body: str, *, styles: str = "", namespace: str = NAMESPACE) -> bytes:
    """Return a Word document with this body and these styles."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as package:
        for name, inside in (("document", f"<w:body>{body}</w:body>"), ("styles", styles)):
            package.writestr(f"word/{name}.xml", f'<w:{name} xmlns:w="{namespace}">{inside}</w:{name}>')
    return made.getvalue()


def docx_elsewhere(main: str, body: str, *, styles: str = "") -> bytes:
    """Return a Word document whose main part has this name; its styles lie in `looks.xml` beside it."""
    directory, _, name = main.rpartition("/")
    parts = {
        "_rels/.rels": _relation("officeDocument", main),
        main: f'<w:document xmlns:w="{NAMESPACE}"><w:body>{body}</w:body></w:document>',
        f"{directory}/_rels/{name}.rels": _relation("styles", "looks.xml"),
        f"{directory}/looks.xml": f'<w:styles xmlns:w="{NAMESPACE}">{styles}</w:styles>',
    }
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as package:
        for part, inside in parts.items():
            package.writestr(part.lstrip("/"), inside)
    return made.getvalue()


def _relation(kind: str, target: str) -> str:
    related = f'<Relationship Id="r" Type="{_RELATION}/{kind}" Target="{target}"/>'
    return f'<Relationships xmlns="{_RELATIONS}">{related}</Relationships>'


def paragraph(text: str, style: str | None = None) -> str:
    """Return a paragraph of a Word document."""
    properties = "" if style is None else f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>'
    return f"<w:p>{properties}<w:r><w:t>{text}</w:t></w:r></w:p>"


def pdf(*pages: str, title: str | None = None) -> bytes:
    """Return a PDF with these pages, a line of text for each of their lines."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", ""]
    kids = []
    for page in pages:
        shown = " ".join(f"({line}) Tj 0 -14 Td" for line in page.split("\n"))
        stream = f"BT /F1 12 Tf 20 700 Td {shown} ET"
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {len(objects)} 0 R "
            "/Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>"
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Count {len(kids)} /Kids [{' '.join(kids)}] >>"
    if title is None:
        return _file(objects, "")
    objects.append(f"<< /Title ({title}) >>")
    return _file(objects, f"/Info {len(objects)} 0 R")


def _file(objects: list[str], info: str) -> bytes:
    made = "%PDF-1.4\n"
    places = []
    for number, written in enumerate(objects, start=1):
        places.append(len(made))
        made += f"{number} 0 obj\n{written}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    start = len(made)
    made += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}"
    made += f"trailer << /Size {len(objects) + 1} /Root 1 0 R {info} >>\nstartxref\n{start}\n%%EOF"
    return made.encode("latin-1")
