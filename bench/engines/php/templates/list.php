<h1><?= htmlspecialchars($name) ?></h1>
<table>
<?php foreach ($items as $item): ?>
<tr><td><?= $item->number ?></td><td><?= htmlspecialchars($item->title) ?></td><td><?= $item->price ?></td></tr>
<?php endforeach ?>
</table>
