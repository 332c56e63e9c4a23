<?php
declare(strict_types=1);

final class Router
{
    private array $routes = [];

    public function add(string $pattern, callable $handler): void
    {
        $this->routes['#^' . preg_replace('/\{(\w+)\}/', '(?<$1>[^/]+)', $pattern) . '$#'] = $handler;
    }

    public function dispatch(Request $request): Response
    {
        foreach ($this->routes as $pattern => $handler) {
            if (preg_match($pattern, $request->path, $parts)) {
                return $handler($request, $parts);
            }
        }
        return new Response("not found\n", 404);
    }
}
