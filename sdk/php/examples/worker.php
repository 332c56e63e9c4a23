<?php
// worker: a front controller in worker mode: `app = "worker.php"`. What is above the loop runs once for each process; the function runs for each
// request, with its superglobals. Variables above the loop stay, so they may hold connections and configuration, but nothing of one visitor.

$booted = date('c');
$routes = [
    '' => fn () => print("It works.\n"),
    'time' => fn () => print(date('c') . ", booted $booted\n"),
    'hello' => fn () => print('Hello, ' . ($_GET['name'] ?? 'world') . ".\n"),
];

$handler = function () use ($routes) {
    header('Content-Type: text/plain; charset=utf-8');
    $page = trim($_SERVER['PATH_INFO'] ?? '', '/');
    if (isset($routes[$page])) {
        $routes[$page]();
        return;
    }
    http_response_code(404);
    echo "There is no page of this name.\n";
};

// A bound on the requests of a process is a bound on what leaks; the engine runs this script again.
for ($requests = 0; $requests < 10000 && sluice_handle_request($handler); $requests++);
