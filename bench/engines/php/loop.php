<?php
// The application as a CGIplus program of the PHP interpreter, with nothing but PHP. Uploads are parsed only by a server's module
// and by CGI, so there is none.
require __DIR__ . '/work.php';

$end = getenv('CGIPLUSEOF');
$records = fopen('php://fd/3', 'r');
$input = fopen('php://stdin', 'r');
$output = fopen('php://stdout', 'w');

while (($line = fgets($records)) !== false) {
    if ($line !== "!\n") {
        continue;
    }
    $_SERVER = [];
    while (($line = fgets($records)) !== false && $line !== "\n") {
        [$name, $value] = explode('=', rtrim($line, "\n"), 2);
        $_SERVER[$name] = $value;
    }
    $_POST = [];
    if (($length = (int) ($_SERVER['CONTENT_LENGTH'] ?? 0)) > 0) {
        parse_str(fread($input, $length), $_POST);
    }
    $body = work_reply();
    fwrite($output, "Content-Type: text/plain\r\nContent-Length: " . strlen($body) . "\r\n\r\n$body$end\n");
}
