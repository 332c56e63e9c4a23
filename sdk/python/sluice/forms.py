"""Fields of the query and of a form in the body, and uploads.

Nothing is read before the first of these functions is called. Fields are kept in memory, up to FIELDS_MAX and FIELD_BYTES_MAX; uploads go
to temporary files, which are removed after the request. They have no names until the form has been read, where the file system can do
that (O_TMPFILE), so that nothing is left if the process is killed while a client sends, which is when clients leave."""

from __future__ import annotations

import os
import re
import tempfile
from dataclasses import dataclass
from typing import BinaryIO, Callable, Dict, List, Optional, Tuple, overload
from urllib.parse import unquote

from .request import State, begin, body_read, is_persistent, variable
from .text import url_decode

FIELDS_MAX = 1000
FIELD_BYTES_MAX = 8 << 20
PART_HEAD_BYTES_MAX = 16384
UPLOAD_BYTES_MAX = 1 << 30
READ_BYTES = 65536
UNNAMED_MAX = 100  # files without names, each of which needs a descriptor

_PARAMETER = re.compile(r';\s*([^\s=;]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;]*))')


class FormError(ValueError):
    """A form that is malformed (`status` 400) or over a bound (413): answer it with `sluice.fail(error.status, str(error))`."""

    def __init__(self, text: str, status: int = 400):
        super().__init__(text)
        self.status = status


@dataclass(frozen=True)
class Upload:
    """An uploaded file. `filename` is the client's name for it, without directories; `path` is where its content is, until the end of
    the request: move or copy it to keep it."""

    name: str
    filename: str
    type: str
    size: int
    path: str

    def open(self) -> BinaryIO:
        """Opens it for reading."""
        return open(self.path, "rb")


class Form:
    """The fields of a request, read once."""

    limit = UPLOAD_BYTES_MAX

    def __init__(self) -> None:
        self.fields: List[Tuple[str, str]] = []
        self.uploads: List[Upload] = []
        self.paths: List[str] = []
        self.unnamed: List[Tuple[int, str]] = []  # descriptors of files, and the names that they get
        self._parts = 0
        self._bytes = 0
        self._upload_bytes = 0

    def read(self) -> None:
        self._add_encoded(variable("QUERY_STRING", ""))
        kind, _, _ = variable("CONTENT_TYPE", "").partition(";")
        kind = kind.strip().lower()
        if kind == "application/x-www-form-urlencoded":
            self._add_encoded(self._small_body().decode("utf-8", "replace"))
        elif kind == "multipart/form-data":
            boundary = _parameters(variable("CONTENT_TYPE", "")).get("boundary", "")
            if not 0 < len(boundary) <= 200:
                raise FormError("the form has no boundary")
            Multipart(self, boundary.encode("latin-1", "replace")).read()
            self.name_files()

    def _small_body(self) -> bytes:
        parts, size = [], 0
        while part := body_read(READ_BYTES):
            size += len(part)
            if size > FIELD_BYTES_MAX:
                raise FormError(f"the form has more than {FIELD_BYTES_MAX} bytes", 413)
            parts.append(part)
        return b"".join(parts)

    def _add_encoded(self, text: str) -> None:
        if text.count("&") >= FIELDS_MAX:
            raise FormError(f"the form has more than {FIELDS_MAX} fields", 413)
        for item in text.split("&"):
            if item:
                name, _, value = item.partition("=")
                self.add(url_decode(name), url_decode(value))

    def add(self, name: str, value: str) -> None:
        self.count(len(name) + len(value))
        self.fields.append((name, value))

    def count(self, size: int) -> None:
        """Counts the bytes of a field, and what there is."""
        self._bytes += size
        self._parts += 1
        if self._parts > FIELDS_MAX:
            raise FormError(f"the form has more than {FIELDS_MAX} fields", 413)
        self.check_bytes(0)

    def check_bytes(self, more: int) -> None:
        if self._bytes + more > FIELD_BYTES_MAX:
            raise FormError(f"the fields of the form have more than {FIELD_BYTES_MAX} bytes", 413)

    def count_upload(self, size: int) -> None:
        self._upload_bytes += size
        if self._upload_bytes > self.limit:
            raise FormError(f"the uploads have more than {self.limit} bytes", 413)

    def new_file(self) -> Tuple[int, str]:
        """A descriptor of a new file, and its path, which may not exist before `name_files`."""
        directory = tempfile.gettempdir()
        path = os.path.join(directory, "sluice-upload-" + os.urandom(8).hex())
        flags = os.O_RDWR | os.O_CLOEXEC
        if len(self.unnamed) < UNNAMED_MAX:
            try:
                descriptor = os.open(directory, flags | os.O_TMPFILE, 0o600)
                self.unnamed.append((os.dup(descriptor), path))
                return descriptor, path
            except OSError:
                pass  # a file system without such files
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o600)
        self.paths.append(path)
        return descriptor, path

    def name_files(self) -> None:
        while self.unnamed:
            descriptor, path = self.unnamed.pop()
            self.paths.append(path)
            try:
                # Only with src_dir_fd, whose value has no meaning here, os.link() follows the symbolic link.
                os.link(f"/proc/self/fd/{descriptor}", path, src_dir_fd=descriptor)
            except OSError:  # no /proc
                with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as copy:
                    os.lseek(descriptor, 0, os.SEEK_SET)
                    while data := os.read(descriptor, READ_BYTES):
                        copy.write(data)
            finally:
                os.close(descriptor)

    def remove(self) -> None:
        for descriptor, _ in self.unnamed:
            os.close(descriptor)
        self.unnamed.clear()
        for path in self.paths:
            try:
                os.unlink(path)
            except OSError:
                pass  # the script has moved it


class Multipart:
    """A body of type multipart/form-data (RFC 7578), read in chunks."""

    def __init__(self, form: Form, boundary: bytes):
        self._form = form
        self._delimiter = b"\r\n--" + boundary
        self._data = b"\r\n"  # as if the first delimiter had a line before it, too

    def read(self) -> None:
        self._copy(lambda data: None)  # the preamble
        while not self._is_last():
            self._part()

    def _more(self) -> None:
        data = body_read(READ_BYTES)
        if not data:
            raise FormError("the form ends before its last boundary")
        self._data += data

    def _is_last(self) -> bool:
        """After a delimiter: whether it is the last one. Otherwise the line of it is skipped."""
        while len(self._data) < 2:
            self._more()
        if self._data[:2] == b"--":
            return True
        while b"\r\n" not in self._data:
            if len(self._data) > 200:
                raise FormError("there is text behind a boundary")
            self._more()
        padding, _, self._data = self._data.partition(b"\r\n")
        if padding.strip(b" \t"):
            raise FormError("there is text behind a boundary")
        return False

    def _part(self) -> None:
        head = self._head()
        disposition = head.get("content-disposition", "")
        words = _parameters(disposition)
        name = _unquoted(words.get("name"))
        if disposition.split(";")[0].strip().lower() != "form-data" or name is None:
            raise FormError("a part of the form has no name")
        filename = _file_name(words)
        if filename is None:
            self._field(name)
        else:
            self._upload(name, filename, head.get("content-type", "application/octet-stream"))

    def _head(self) -> Dict[str, str]:
        self._data = b"\r\n" + self._data  # so that a head without fields ends, too
        while (end := self._data.find(b"\r\n\r\n")) < 0:
            if len(self._data) > PART_HEAD_BYTES_MAX:
                raise FormError("the head of a part is too long", 413)
            self._more()
        lines = self._data[2:end].decode("utf-8", "replace").split("\r\n") if end else []
        self._data = self._data[end + 4 :]
        pairs = (line.partition(":") for line in lines)
        return {key.strip().lower(): value.strip() for key, _, value in pairs}

    def _copy(self, write: Callable[[bytes], object]) -> None:
        """Gives what comes before the next delimiter to `write`, and skips the delimiter."""
        keep = len(self._delimiter) - 1
        while (at := self._data.find(self._delimiter)) < 0:
            if len(self._data) > keep:
                write(self._data[:-keep])
                self._data = self._data[-keep:]
            self._more()
        if at:
            write(self._data[:at])
        self._data = self._data[at + len(self._delimiter) :]

    def _field(self, name: str) -> None:
        value = bytearray()

        def write(data: bytes) -> None:
            self._form.check_bytes(len(value) + len(data))
            value.extend(data)

        self._copy(write)
        self._form.add(name, value.decode("utf-8", "replace"))

    def _upload(self, name: str, filename: str, kind: str) -> None:
        self._form.count(len(name) + len(filename) + len(kind))
        upload = NewUpload(self._form)
        with upload:
            if filename:
                upload.open()
            self._copy(upload.write)
        if upload.file:  # there is none if no file was chosen: neither a name nor content
            self._form.uploads.append(Upload(name, filename, kind, upload.size, upload.path))


class NewUpload:
    """An upload that is being received."""

    def __init__(self, form: Form):
        self._form = form
        self.file: Optional[BinaryIO] = None
        self.path = ""
        self.size = 0

    def __enter__(self) -> NewUpload:
        return self

    def __exit__(self, *_: object) -> None:
        if self.file:
            self.file.close()

    def open(self) -> BinaryIO:
        descriptor, self.path = self._form.new_file()
        self.file = os.fdopen(descriptor, "wb")
        return self.file

    def write(self, data: bytes) -> None:
        self.size += len(data)
        self._form.count_upload(len(data))
        (self.file or self.open()).write(data)


def _parameters(text: str) -> Dict[str, str]:
    """The parameters of a header field."""
    return {
        found[1].lower(): re.sub(r'\\(["\\])', r"\1", found[2]) if found[2] is not None else found[3].strip()
        for found in _PARAMETER.finditer(text)
    }


def _unquoted(name: Optional[str]) -> Optional[str]:
    """A name as the user sees it: browsers write %22 for a quote (HTML, "multipart form data")."""
    return name and name.replace("%22", '"')


def _file_name(words: Dict[str, str]) -> Optional[str]:
    """The client's name of a file without directories; None if there is none."""
    name = words.get("filename")
    if name is None and "filename*" in words:
        name = unquote(words["filename*"].rpartition("'")[2], errors="replace")
    if name is None:
        return None
    name = re.sub(r"[\x00-\x1f\x7f]", "", _unquoted(name) or "").replace("\\", "/").rpartition("/")[2]
    return "" if name in (".", "..") else name


class Current:
    form: Optional[Form] = None
    error: Optional[FormError] = None


def _form() -> Form:
    begin()
    if Current.error is not None:
        raise Current.error
    if Current.form is None:
        Current.form = Form()
        try:
            Current.form.read()
        except FormError as error:
            Current.error = error
            raise
    return Current.form


def _forget() -> None:
    if Current.form is not None:
        Current.form.remove()
    Current.form = Current.error = None
    if not is_persistent():
        Form.limit = UPLOAD_BYTES_MAX


State.ends.append(_forget)


@overload
def parameter(name: str) -> Optional[str]: ...
@overload
def parameter(name: str, default: str) -> str: ...
def parameter(name: str, default: Optional[str] = None) -> Optional[str]:
    """The first value of a field."""
    return next((value for key, value in _form().fields if key == name), default)


def parameters(name: str) -> List[str]:
    """All values of a field: those of the query, then those of the form."""
    return [value for key, value in _form().fields if key == name]


def parameter_names() -> List[str]:
    """The names of all fields, each once, in their order."""
    return list(dict.fromkeys(name for name, _ in _form().fields))


def upload(name: str) -> Optional[Upload]:
    """The first upload of this name."""
    return next(iter(uploads(name)), None)


def uploads(name: Optional[str] = None) -> List[Upload]:
    """All uploads, or those of a name."""
    return [found for found in _form().uploads if name is None or found.name == name]


def upload_limit(bytes: int) -> None:
    """The bytes that all uploads of a request may have together: 1 GiB at first. Call it before a form is read. Under CGIplus it stays."""
    Form.limit = bytes
