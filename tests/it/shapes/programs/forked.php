<?php
// A parent and its child wait for a word of each other.
$ends = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
if (pcntl_fork() === 0) {
    fread($ends[1], 1);
    exit;
}
pcntl_wait($status);
