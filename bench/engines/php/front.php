<?php
// The front controller of the application.
require __DIR__ . '/site.php';

site_router()->dispatch(Request::ofServer())->send();
