/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#ifndef L4LB_CSUM_H
#define L4LB_CSUM_H

/* The Internet checksum (RFC 1071): a sum to 16 bits, complemented. */
static __always_inline __u16 csum_fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

/* RFC 1624: the checksum after a 16-bit word changed. */
static __always_inline __u16 csum_replace(__u16 check, __u16 from, __u16 to)
{
	return csum_fold((__u64)(__u16)~check + (__u16)~from + to);
}

#endif
