/* A shared library that is no plug-in. */
int nothing_of_interest;
