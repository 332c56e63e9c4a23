<?php
// counter: keeps a number in memory. As CGIplus (php) it is a variable of this script. In the engine the variables of a script begin again with
// each request, and sluice_uses() is the count of the engine's process (worker.php shows state that stays); as CGI each request gets 1.

if (!function_exists('sluice_accept')) require_once __DIR__ . '/../sluice.php';

$count = 0;
while (sluice_accept()) {
    $count = sluice_is_persistent() ? $count + 1 : sluice_uses();
    sluice_header('Cache-Control', 'no-store');
    sluice_respond('text/plain; charset=utf-8');
    sluice_write("$count\n");
    sluice_finish();
}
