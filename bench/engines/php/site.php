<?php
// A small application: classes that are loaded when they are needed, a router, templates.
spl_autoload_register(static function (string $class): void {
    require __DIR__ . "/lib/$class.php";
});

function site_router(): Router
{
    $router = new Router();
    $router->add('/app/list/{name}', static fn (Request $request, array $parts): Response => (new ListController(
        new Repository(),
        new View(__DIR__ . '/templates'),
    ))->show($request, $parts['name']));
    return $router;
}
