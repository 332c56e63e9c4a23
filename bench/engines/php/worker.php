<?php
// The application in worker mode: classes and router are made once, then requests are handled in a loop.
require __DIR__ . '/work.php';
require __DIR__ . '/site.php';

$router = site_router();
$handler = static function () use ($router): void {
    if (str_starts_with($_SERVER['PATH_INFO'] ?? '', '/app/')) {
        $router->dispatch(Request::ofServer())->send();
        return;
    }
    $body = work_reply();
    header('Content-Type: text/plain');
    header('Content-Length: ' . strlen($body));
    echo $body;
};
while (sluice_handle_request($handler)) {
}
