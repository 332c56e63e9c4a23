<?php
// The behaviours in worker mode: this script boots once and loops over requests. PATH_INFO names a behaviour of plain.php.

const WORKER = true;
require dirname(__DIR__, 2) . '/scripts/plain.php';

// Names that PHP has itself, and one that the test of a changed source changes.
$behaviours = ['echo' => 'copy_body', 'empty' => 'nothing_more', 'status' => function () {
    text_head();
    header('HTTP/1.1 ' . variable('QUERY_STRING') . ' Its Own Words');
    echo "a document\n";
}];
while (sluice_handle_request(function () use ($behaviours) {
    $name = str_replace('-', '_', explode('/', variable('PATH_INFO'))[1]);
    ($behaviours[$name] ?? $name)();
}));
