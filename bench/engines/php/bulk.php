<?php
// Writes MEGABYTES+b or MEGABYTES+m (the query) in blocks of 64 kB: to the memory buffer, or to the mailbox.
$block = str_repeat('x', 65536);
[$megabytes, $channel] = explode('+', $_SERVER['QUERY_STRING']);
$blocks = (int) $megabytes * 16;
header('Content-Type: application/octet-stream');
if ($channel === 'b') {
    sluice_buffer_begin(4 * 1024 * 1024);
    for ($at = 0; $at < $blocks; $at++) {
        sluice_buffer_write($block);
    }
    sluice_buffer_end();
} else {
    for ($at = 0; $at < $blocks; $at++) {
        echo $block;
    }
}
