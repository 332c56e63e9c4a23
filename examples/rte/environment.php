<?php
// Prints the variables of the request. SCRIPT_RTE is the name of the engine.
header('Content-Type: text/plain; charset=utf-8');
$variables = array_filter($_SERVER, 'is_scalar');
ksort($variables);
foreach ($variables as $name => $value) {
    // Secrets of the protocol between server and script.
    if (!str_starts_with($name, 'CGIPLUS')) {
        echo $name, '=', addcslashes((string) $value, "\0..\37\177..\377"), "\n";
    }
}
