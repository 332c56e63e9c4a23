<?php
declare(strict_types=1);

final class ListController
{
    public function __construct(private Repository $items, private View $view)
    {
    }

    public function show(Request $request, string $name): Response
    {
        $items = $this->items->items($name, $request->number('n', 10));
        return new Response($this->view->render('list', ['name' => $name, 'items' => $items]));
    }
}
