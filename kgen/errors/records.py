"""Refusals of the records: a value that no row may hold, a file that is no database of records, or not a whole one."""

from kgen.errors.base import BadInputError, KgenError


class RecordInvalidError(BadInputError):
    """A row would say something that no record may say."""

    message = "a record of {spec}: {field}: {reason}"
    remedy = "{fix}"


class RecordsMissingError(BadInputError):
    """There is no database where one is to be read."""

    message = "there is no {file}"
    remedy = "`kgen records add DIR` or `kgen regen` makes one; --records names another file"


class RecordsForeignError(BadInputError):
    """The file is something else."""

    message = "{file} is no database of records: {reason}"
    remedy = "name another file with --records; nothing was written to this one"


class RecordsNewerError(BadInputError):
    """A later kgen wrote the database."""

    message = "{file} has schema {found}, and this kgen knows schemas up to {known}"
    remedy = "use a kgen at least as new as the one that wrote it, or name another file with --records"


class RecordsDamagedError(BadInputError):
    """The database, or a row of it, is not what was written."""

    message = "{file} is damaged: {reason}"
    remedy = (
        "put a copy in its place, or move it away and fill a new one: `kgen records add DIR...` reads packages again, "
        "`kgen records merge` takes the rows of other databases"
    )


class RecordsBusyError(KgenError):
    """Another process kept the database locked."""

    message = "{file} was locked by another process for {seconds:.0f} s"
    remedy = "nothing was written; end the process that holds it (a debugger, an open transaction), and repeat"
    exit_code = 1


class RecordsAccessError(BadInputError):
    """The operating system refused to open, read or write the file."""

    message = "cannot use {file}: {reason}"
    remedy = "the file and its folder must be writable, with space left; copy it to a folder that is"


class UnknownRecordError(BadInputError):
    """No row has a key that starts so."""

    message = "{file} has no record {key!r}"
    remedy = "`kgen records list` shows the keys; the first characters of one are enough"


class AmbiguousRecordError(BadInputError):
    """Several rows have keys that start so."""

    message = "{count} records of {file} start with {key!r}: {keys}"
    remedy = "give more characters"


class UnknownWordError(BadInputError):
    """An option names no kind, or no status, of records."""

    message = "{option} {name!r}: there is none"
    remedy = "one of {known}"


class ExportFormatError(BadInputError):
    """No export writes files of that ending."""

    message = "{file}: records are exported to {known}"
    remedy = "end the name of the file in one of them"


class ParquetMissingError(KgenError):
    """pyarrow, which writes Parquet, cannot be imported."""

    message = "Parquet needs pyarrow: {reason}"
    remedy = "pip install 'kgen[records]', or export to .csv or .json"
