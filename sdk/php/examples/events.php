<?php
// events: server-sent events: ?count=N times (10 without it) the time, one each second (?pause=MILLISECONDS), as new EventSource("…") reads
// them. A client that connects again continues after the last event that it has seen.

if (!function_exists('sluice_accept')) require_once __DIR__ . '/../sluice.php';

function number($text, $most) { return max(0, min((int) $text, $most)); }

while (sluice_accept()) {
    $first = number(sluice_variable('HTTP_LAST_EVENT_ID', '0'), 1000000) + 1;
    $count = number(sluice_parameter('count', '10'), 1000);
    $pause = number(sluice_parameter('pause', '1000'), 60000);
    for ($id = $first; $id < $first + $count; $id++) {
        sluice_event(date('H:i:s'), 'tick', (string) $id);
        if ($id + 1 < $first + $count) usleep($pause * 1000);
    }
    sluice_finish();
}
