# Writes OUT, a C source with the text of FILES (paths below ROOT): tg_npu_source_at() answers from it.
set(arrays "")
set(entries "")
set(number 0)
foreach(path IN LISTS FILES)
    file(READ ${ROOT}/${path} bytes HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
    string(APPEND arrays "static const unsigned char text_${number}[] = {${bytes}0};\n")
    string(APPEND entries "    {\"${path}\", (const char *)text_${number}},\n")
    math(EXPR number "${number} + 1")
endforeach()
file(WRITE ${OUT} "#include <tigon/npu.h>

${arrays}
static const tg_npu_source sources[] = {
${entries}};

int tg_npu_source_count(void)
{
    return ${number};
}

const tg_npu_source *tg_npu_source_at(int source)
{
    return source >= 0 && source < ${number} ? &sources[source] : 0;
}
")
