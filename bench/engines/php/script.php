<?php
// The application as a script.
require __DIR__ . '/work.php';

$body = work_reply();
header('Content-Type: text/plain');
header('Content-Length: ' . strlen($body));
echo $body;
