<?php
// download: sends ?mb=N megabytes (64 without it) by the memory buffer, or by the mailbox where there is no buffer.

if (!function_exists('sluice_accept')) require_once __DIR__ . '/../sluice.php';

function download($megabytes)
{
    // Before the head: the server may refuse, and the script can still choose.
    $hasBuffer = sluice_buffer_begin(4 << 20) !== false;
    sluice_header('Content-Length', (string) ($megabytes << 20));
    sluice_header('Content-Disposition', 'attachment; filename="download.bin"');
    sluice_header('X-Buffer', $hasBuffer ? 'yes' : 'no');
    sluice_respond('application/octet-stream');
    for ($number = 0; $number < $megabytes << 4; $number++) {
        $chunk = str_repeat(chr($number & 0xff), 65536);
        if (!$hasBuffer) sluice_write($chunk);
        elseif (!sluice_buffer_write($chunk)) return; // the client has left
    }
    if ($hasBuffer) sluice_buffer_end();
}

while (sluice_accept()) {
    $megabytes = filter_var(sluice_parameter('mb', '64'), FILTER_VALIDATE_INT, ['options' => ['min_range' => 0, 'max_range' => 100000]]);
    if ($megabytes === false) sluice_fail(400, 'mb is a number from 0 to 100000.');
    else download($megabytes);
    sluice_finish();
}
