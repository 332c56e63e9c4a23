<?php
// A script with heavy imports: classes of which it uses a little.
foreach (glob(__DIR__ . '/classes/*.php') as $file) {
    require_once $file;
}

$body = json_encode(['total' => (new Class7())->method3(1990) * 3 / 100]);
header('Content-Type: application/json');
header('Content-Length: ' . strlen($body));
echo $body;
