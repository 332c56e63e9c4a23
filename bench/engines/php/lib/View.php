<?php
declare(strict_types=1);

final class View
{
    public function __construct(private string $directory)
    {
    }

    public function render(string $template, array $variables): string
    {
        return $this->one('base', ['title' => $variables['name'], 'main' => $this->one($template, $variables)]);
    }

    private function one(string $template, array $variables): string
    {
        extract($variables);
        ob_start();
        require "$this->directory/$template.php";
        return ob_get_clean();
    }
}
