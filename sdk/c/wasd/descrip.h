/* descrip.h for WASD sources: OpenVMS string descriptors. */
#ifndef SLUICE_WASD_DESCRIP_H
#define SLUICE_WASD_DESCRIP_H
#define DSC$K_DTYPE_T 14 /* text */
#define DSC$K_CLASS_S 1  /* fixed */
#define DSC$K_CLASS_D 2  /* dynamic */

struct dsc$descriptor {
    unsigned short dsc$w_length;
    unsigned char dsc$b_dtype;
    unsigned char dsc$b_class;
    char *dsc$a_pointer;
};
#define dsc$descriptor_s dsc$descriptor
#define dsc$descriptor_d dsc$descriptor

#define $DESCRIPTOR(name, string) \
    struct dsc$descriptor_s name = {sizeof(string) - 1, DSC$K_DTYPE_T, DSC$K_CLASS_S, (char *)(string)}
#endif
