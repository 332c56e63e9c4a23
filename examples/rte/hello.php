<?php
// PHP forgets everything at the end of a request; only the process and the compiled script stay.
header('Content-Type: text/plain; charset=utf-8');
echo 'Hello from PHP ', PHP_VERSION, ', process ', getmypid(), ": {$_SERVER['REQUEST_METHOD']} from {$_SERVER['REMOTE_ADDR']}\n";
