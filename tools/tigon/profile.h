/* tools/tigon/profile.h - what the files of `tigon profile` share. */
#ifndef TIGON_PROFILE_H
#define TIGON_PROFILE_H

/* Prints what the model wrote into a folder; 0, or 1 if it wrote nothing. */
int profile_report(const char *folder, int as_json);

#endif
