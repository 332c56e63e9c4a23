<?php
// The work of every form of the application. Each form only reads the request and sends the reply.

function work_text(int $size): string
{
    $line = '';
    for ($at = 0; $at < 63; $at++) {
        $line .= chr(33 + $at % 90);
    }
    return substr(str_repeat("$line\n", intdiv($size, 64) + 1), 0, $size);
}

// One line for each field: its name, and the length of its value in letters.
function work_form(array $fields): string
{
    $reply = '';
    foreach ($fields as $name => $value) {
        $reply .= "$name: " . mb_strlen($value) . "\n";
    }
    return $reply;
}

// The size of the file that was uploaded, and its last eight bytes.
function work_upload(array $file): string
{
    return $file['size'] . ' ' . file_get_contents($file['tmp_name'], false, null, $file['size'] - 8) . "\n";
}

function work_reply(): string
{
    if ($_SERVER['REQUEST_METHOD'] !== 'POST') {
        return work_text((int) ($_SERVER['QUERY_STRING'] ?? 0));
    }
    return isset($_FILES['file']) ? work_upload($_FILES['file']) : work_form($_POST);
}
