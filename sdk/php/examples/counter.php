<?php
// counter: counts in memory as a CGIplus script (php), where the process and its variables stay. As CGI and in the engine each request begins
// with new variables and gets 1; in the engine, worker mode is for state that stays (worker.php).

if (!function_exists('sluice_accept')) require_once __DIR__ . '/../sluice.php';

$count = 0;
while (sluice_accept()) {
    $count++;
    sluice_header('Cache-Control', 'no-store');
    sluice_respond('text/plain; charset=utf-8');
    sluice_write("$count\n" . sluice_uses() . " requests of this process\n");
    sluice_finish();
}
