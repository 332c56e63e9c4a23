<?php
/* sluice_form.php: the fields of the query and of forms, and uploads, for sluice.php, which includes it. Not for scripts.

   Here: urlencoded and multipart forms of the command line, and what php-cgi has parsed. Not here: reading the body, and its limits (SluiceProcess). */

/* Reads a multipart form of the command line: fields into memory, files to temporary files, both bounded. */
final class SluiceMultipart
{
    private $boundary;
    private $have = '';
    private $fieldBytes = 0;
    private $fileBytes = 0;
    public $fields = [];
    public $uploads = [];

    public function __construct($boundary) { $this->boundary = "\r\n--$boundary"; }

    public function read()
    {
        $this->have = "\r\n";
        $ignored = function () {};
        $this->part($ignored);
        while (($head = $this->headOfPart()) !== null) $this->readPart($head);
    }

    private function fill()
    {
        $text = sluice_body_read(SluiceProcess::CHUNK);
        $this->have .= $text;
        return $text !== '';
    }

    /* Gives the bytes up to the next boundary to $take. */
    private function part($take)
    {
        for (;;) {
            $at = strpos($this->have, $this->boundary);
            if ($at !== false) {
                $take(substr($this->have, 0, $at));
                $this->have = substr($this->have, $at + strlen($this->boundary));
                return;
            }
            $sure = strlen($this->have) - strlen($this->boundary);
            if ($sure > 0) {
                $take(substr($this->have, 0, $sure));
                $this->have = substr($this->have, $sure);
            }
            if (!$this->fill()) SluiceProcess::malformed();
        }
    }

    /* The fields of the head of the next part; null after the last part. */
    private function headOfPart()
    {
        while (strlen($this->have) < 2 || (substr($this->have, 0, 2) !== '--' && strpos($this->have, "\r\n\r\n") === false)) {
            if (strlen($this->have) > 65536 || !$this->fill()) SluiceProcess::malformed();
        }
        if (substr($this->have, 0, 2) === '--') return null;
        [$head, $this->have] = explode("\r\n\r\n", $this->have, 2);
        $this->have = "$this->have";
        preg_match('/[; ]name="([^"]*)"/i', $head, $name);
        preg_match('/filename="([^"]*)"/i', $head, $file);
        preg_match('/^content-type:\s*([^\r\n]*)/im', $head, $type);
        if (!isset($name[1])) SluiceProcess::malformed();
        return [
            'name' => SluiceProcess::unquoted($name[1]), 'filename' => isset($file[1]) ? SluiceProcess::unquoted($file[1]) : null,
            'type' => $type[1] ?? 'application/octet-stream',
        ];
    }

    private function readPart($head)
    {
        if (count($this->fields) + count($this->uploads) >= SluiceProcess::FIELDS_MAX) SluiceProcess::tooLarge('more than 1000 fields');
        if ($head['filename'] === null) {
            $value = '';
            $this->part(function ($text) use (&$value) {
                $this->fieldBytes += strlen($text);
                if ($this->fieldBytes > SluiceProcess::FORM_BYTES_MAX) SluiceProcess::tooLarge('more than 8 MiB of fields');
                $value .= $text;
            });
            $this->fields[] = [$head['name'], $value];
            return;
        }
        $path = tempnam(sys_get_temp_dir(), 'sluice');
        $this->uploads[] = ['name' => $head['name'], 'filename' => basename(str_replace('\\', '/', $head['filename'])), 'type' => $head['type'], 'size' => 0, 'path' => $path];
        SluiceProcess::$uploads = $this->uploads; // so that the file is removed whatever happens
        $file = fopen($path, 'wb');
        $this->part(function ($text) use ($file) {
            $this->fileBytes += strlen($text);
            if ($this->fileBytes > SluiceProcess::$uploadLimit) SluiceProcess::tooLarge('the uploads are larger than sluice_upload_limit()');
            if (fwrite($file, $text) !== strlen($text)) throw new RuntimeException('the upload cannot be stored', 507);
        });
        fclose($file);
        $last = count($this->uploads) - 1;
        $this->uploads[$last]['size'] = filesize($path);
        if ($head['filename'] === '') unlink(array_pop($this->uploads)['path']); // no file was chosen
    }
}

/* The fields of the query and of the form, in order. Not for scripts. */
function sluice_fields_()
{
    if (SluiceProcess::$fields !== null) return SluiceProcess::$fields;
    SluiceProcess::$fields = [];
    $pairs = sluice_decoded_((string) sluice_variable('QUERY_STRING', ''));
    $type = (string) sluice_variable('CONTENT_TYPE', '');
    if (stripos($type, 'application/x-www-form-urlencoded') === 0) {
        $body = '';
        while (($text = sluice_body_read(SluiceProcess::CHUNK)) !== '') {
            $body .= $text;
            if (strlen($body) > SluiceProcess::FORM_BYTES_MAX) SluiceProcess::tooLarge('more than 8 MiB of fields');
        }
        $pairs = array_merge($pairs, sluice_decoded_($body));
    } elseif (stripos($type, 'multipart/form-data') === 0) {
        if (!preg_match('~;.*boundary="?([^";,]+)~i', $type, $match)) SluiceProcess::malformed();
        $pairs = array_merge($pairs, SluiceProcess::isCommandLine() ? sluice_multipart_($match[1]) : sluice_parsed_($_POST));
    }
    if (count($pairs) > SluiceProcess::FIELDS_MAX) SluiceProcess::tooLarge('more than 1000 fields');
    foreach ($pairs as [$name, $value]) SluiceProcess::$fields["=$name"][] = $value; // "=": PHP would make numbers of names like "1"
    return SluiceProcess::$fields;
}

function sluice_decoded_($text)
{
    $pairs = [];
    foreach (array_filter(explode('&', $text), 'strlen') as $field) {
        [$name, $value] = explode('=', $field, 2) + [1 => ''];
        $pairs[] = [urldecode($name), urldecode($value)];
    }
    return $pairs;
}

function sluice_multipart_($boundary)
{
    $form = new SluiceMultipart($boundary);
    $form->read();
    SluiceProcess::$uploads = $form->uploads;
    return $form->fields;
}

/* What php-cgi has parsed: of a repeated name without [] it keeps the last. */
function sluice_parsed_($fields, $prefix = null)
{
    $pairs = [];
    foreach ($fields as $name => $value) {
        $whole = $prefix === null ? (string) $name : (is_int($name) ? "{$prefix}[]" : "{$prefix}[$name]");
        if (is_array($value)) $pairs = array_merge($pairs, sluice_parsed_($value, $whole));
        else $pairs[] = [SluiceProcess::unquoted($whole), $value];
    }
    if ($prefix === null) sluice_parsed_files_();
    return $pairs;
}

function sluice_parsed_files_()
{
    foreach ($_FILES as $name => $file) {
        $isList = is_array($file['name']);
        foreach ((array) $file['error'] as $index => $error) {
            $of = fn ($key) => $isList ? $file[$key][$index] : $file[$key];
            if ($error === UPLOAD_ERR_NO_FILE) continue;
            if ($error !== UPLOAD_ERR_OK) SluiceProcess::tooLarge('an upload is larger than upload_max_filesize, or incomplete');
            SluiceProcess::$uploads[] = ['name' => SluiceProcess::unquoted($isList ? "{$name}[]" : $name), 'filename' => SluiceProcess::unquoted($of('name')), 'type' => $of('type'), 'size' => $of('size'), 'path' => $of('tmp_name')];
        }
    }
}
