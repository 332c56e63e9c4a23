<?php
// form: shows a form, and what was sent with it: two fields and any number of files.

if (!function_exists('sluice_accept')) require_once __DIR__ . '/../sluice.php';

const FORM = <<<'HTML'
    <!DOCTYPE html>
    <title>Form</title>
    <form method="post" enctype="multipart/form-data">
    <p><label>Name <input name="name"></label>
    <p><label>Note <textarea name="note"></textarea></label>
    <p><label>Files <input type="file" name="file[]" multiple></label>
    <p><button>Send</button>
    </form>

    HTML;

function show_answers()
{
    $names = sluice_parameter_names(); // reads the form: RuntimeException if it is too large
    sluice_write("<!DOCTYPE html>\n<title>Sent</title>\n<dl>\n");
    foreach ($names as $name) {
        foreach (sluice_parameters($name) as $value) {
            sluice_write('<dt>' . sluice_escape_html($name) . '<dd>' . sluice_escape_html($value) . "\n");
        }
    }
    // PHP keeps several files of one name only if it ends with []; a client may also send one as "file".
    foreach ([...sluice_uploads('file'), ...sluice_uploads('file[]')] as $upload) {
        $start = strtok((string) file_get_contents($upload['path'], false, null, 0, 60), "\n");
        sluice_write('<dt>' . sluice_escape_html($upload['filename']) . "<dd>$upload[size] bytes of " . sluice_escape_html($upload['type']));
        sluice_write(', begins with <code>' . sluice_escape_html((string) $start) . "</code>\n");
    }
    sluice_write("</dl>\n");
}

while (sluice_accept()) {
    sluice_upload_limit(100 << 20);
    try {
        sluice_variable('REQUEST_METHOD') === 'POST' ? show_answers() : sluice_write(FORM);
    } catch (RuntimeException $error) {
        sluice_fail($error->getCode() ?: 500, $error->getMessage());
    }
    sluice_finish();
}
