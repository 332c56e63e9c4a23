<?php
// hello: the smallest script. It runs as CGI (php-cgi), as CGIplus (php) and in the engine.

if (!function_exists('sluice_accept')) require_once __DIR__ . '/../sluice.php';

while (sluice_accept()) {
    $name = sluice_parameter('name', 'world');
    sluice_respond('text/plain; charset=utf-8');
    sluice_write("Hello, $name.\nThis process has served " . sluice_uses() . " requests.\n");
    sluice_finish();
}
