#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Writes errors_table.inc: calls with one wrong argument each, for the functions of functions.tsv.

usage: gen_errors_table.py OUT.inc

tests/mpi_conformance/run calls it before it compiles errors_table.c. The type and the name of a parameter determine a right
argument and the wrong ones, with the error classes that the standard allows for them: the tables below have the
general rules, then the exceptions by function (for a function and its _c form alike). A function without a known right
argument ends the generator with an error: nothing is omitted silently.
"""
import os
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent

# Chapters that other programs test, and functions that have no wrong argument or do not return an error class.
OTHERS = re.compile(r"MPI_(Win_|File_|(R?put|R?get|R?accumulate|R?get_accumulate|Fetch_and_op|Compare_and_swap)(_c)?$|"
                    r"Register_datarep|Comm_(spawn|accept|connect|join)|Open_port|Close_port|(Unp|P)ublish|Lookup|T_)",
                    re.I)
NO_ERRORS = set("""Abort Aint_add Aint_diff Buffer_flush Finalize Init Init_thread Pcontrol Wtick Wtime Free_mem
    Comm_fromint Errhandler_fromint Group_fromint Info_fromint Message_fromint Op_fromint Request_fromint
    Session_fromint Type_fromint Comm_toint Errhandler_toint Group_toint Info_toint Message_toint Op_toint
    Request_toint Session_toint Type_toint""".split())

# Handle types: field of struct handles, error classes of a wrong one.
HANDLES = {
    "MPI_Comm": ("comm", "COMM"), "MPI_Datatype": ("type", "TYPE"), "MPI_Group": ("group", "GROUP"),
    "MPI_Op": ("op", "OP"), "MPI_Info": ("info", "INFO"), "MPI_Request": ("request", "REQUEST"),
    "MPI_Message": ("message", "REQUEST|ARG"), "MPI_Errhandler": ("errhandler", "ERRHANDLER|ARG"),
    "MPI_Session": ("session", "SESSION"),
}

BAD_RANKS = [("in.size", "RANK"), ("-12345", "RANK")]
BAD_ROOTS = [("in.size", "ROOT"), ("-12345", "ROOT")]
BAD_TAG = [("-12345", "TAG")]
BAD_COUNT = [("-1", "COUNT")]
BAD_ARG = [("-1", "ARG")]
NULL_ARG = [("NULL", "ARG")]
NULL_BUF = [("NULL", "BUFFER|ARG")]
COUNTS = [("NULL", "ARG|COUNT"), ("in.NEG", "COUNT|ARG")]
NONE = []

# A right argument and the wrong ones, by the name of a parameter that is a number. Every rank is the root (nothing is
# communicated), because some arguments are significant at the root alone.
NUMBERS = {
    "count": ("1", BAD_COUNT), "sendcount": ("1", BAD_COUNT), "recvcount": ("1", BAD_COUNT),
    "incount": ("1", [("-1", "COUNT|ARG")]), "outcount": ("1", [("-1", "COUNT|ARG")]),
    "blocklength": ("1", [("-1", "ARG|COUNT")]), "stride": ("1", NONE),
    "dest": ("0", BAD_RANKS), "source": ("0", BAD_RANKS), "rank": ("0", BAD_RANKS), "root": ("in.rank", BAD_ROOTS),
    "tag": ("7", BAD_TAG), "sendtag": ("7", BAD_TAG), "recvtag": ("7", BAD_TAG),
    "reorder": ("0", NONE), "key": ("0", NONE), "color": ("0", [("-5", "ARG")]), "flag": ("1", NONE),
    "errorcode": ("MPI_ERR_OTHER", NONE), "high": ("0", NONE), "commute": ("1", NONE),
    "partitions": ("1", [("-1", "ARG|COUNT")]), "maxdims": ("8", [("-1", "ARG|DIMS")]),
    "order": ("MPI_ORDER_C", [("-77", "ARG")]), "disp": ("1", NONE),
    "local_leader": ("in.rank", BAD_RANKS), "remote_leader": ("0", BAD_RANKS),
    "lb": ("0", NONE), "extent": ("4", NONE), "error": ("0", NONE),
}

# Pointers that are not plain outputs, by type and name, then by type.
POINTERS = {
    ("const void *", "buf"): ("in.buf", NULL_BUF), ("const void *", "sendbuf"): ("in.buf", NULL_BUF),
    ("const void *", "inbuf"): ("in.buf", NULL_BUF), ("void *", "buf"): ("OUT", NULL_BUF),
    ("void *", "buffer"): ("OUT", NULL_BUF), ("void *", "recvbuf"): ("OUT", NULL_BUF),
    ("void *", "outbuf"): ("OUT", NULL_BUF), ("void *", "inoutbuf"): ("OUT", NULL_BUF),
    ("void *", "extra_state"): ("NULL", NONE),
    ("const char *", "datarep"): ('"external32"', NULL_ARG + [('"nonsense"', "ARG|UNSUPPORTED_DATAREP")]),
    ("const char []", "datarep"): ('"external32"', NULL_ARG + [('"nonsense"', "ARG|UNSUPPORTED_DATAREP")]),
    ("const char *", "key"): ('"known"', [("NULL", "INFO_KEY|ARG"), ('""', "INFO_KEY"), ("in.long_key", "INFO_KEY")]),
    ("const int []", "dims"): ("in.ONE", [("NULL", "ARG|DIMS"), ("in.NEG", "ARG|DIMS")]),
    ("const int []", "periods"): ("in.ONE", NULL_ARG),
    ("const int []", "coords"): ("in.ZERO", NULL_ARG),
}
for _array in ("sendcounts", "recvcounts"):
    for _type in ("const int []", "const MPI_Count []"):
        POINTERS[(_type, _array)] = ("in.ONE", COUNTS)
for _array in ("displs", "sdispls", "rdispls"):
    for _type in ("const int []", "const MPI_Aint []", "const MPI_Count []"):
        POINTERS[(_type, _array)] = ("in.ZERO", NULL_ARG)
for _array in ("sendtypes", "recvtypes"):
    POINTERS[("const MPI_Datatype []", _array)] = (
        "in.types", [("NULL", "ARG|TYPE"), ("in.types_null", "TYPE"), ("in.types_loose", "TYPE")])

TYPE_ARRAYS = [("NULL", "ARG"), ("in.types_null", "TYPE")]
LENGTHS = [("NULL", "ARG"), ("in.NEG", "ARG|COUNT")]
GROUP_RANKS = [("NULL", "ARG|RANK"), ("in.ints_neg", "RANK"), ("in.ints_big", "RANK")]
RANGES = [("NULL", "ARG"), ("in.ranges_zero", "ARG|RANK"), ("in.ranges_big", "RANK|ARG")]
KEY = [("MPI_KEYVAL_INVALID", "KEYVAL"), ("987654", "KEYVAL"), ("in.type_key", "KEYVAL")]
TYPE_KEY = [("MPI_KEYVAL_INVALID", "KEYVAL"), ("987654", "KEYVAL"), ("in.comm_key", "KEYVAL")]
IN_PLACE = ("MPI_IN_PLACE", "BUFFER|ARG")
REQUESTS = [("NULL", "ARG|REQUEST"), ("f.bad_requests", "REQUEST")]
BUFFER = {"buffer": ("OUT", NONE), "size": ("4096", [("-1", "BUFFER|ARG|COUNT")])}
DETACH = {"buffer_addr": ("OUT", [("NULL", "ARG|BUFFER")]), "size": ("OUT", NULL_ARG)}
STATUS_IN = {"status": ("&f.status", NULL_ARG)}
TOPO = "TOPOLOGY|COMM"

# By function: parameter -> (right argument, wrong ones); None keeps the general ones. "+" in front of the list adds
# to the general ones, "=" replaces them (for communicators a list alone adds, too).
FUNCTIONS = {
    "Abi_get_fortran_booleans": {"logical_size": ("4", [("3", "ARG")]), "logical_true": ("OUT", NULL_ARG),
                                 "logical_false": ("OUT", NULL_ARG)},
    "Abi_set_fortran_booleans": {"logical_size": ("4", [("3", "ARG")]), "logical_true": ("in.buf", NULL_ARG),
                                 "logical_false": ("in.buf", NULL_ARG)},
    "Abi_set_fortran_info": {"info": ("in.info", None)},
    "Add_error_code": {"errorclass": ("MPI_ERR_OTHER", [("-1", "ARG"), ("1 << 20", "ARG")])},
    "Add_error_string": {"errorcode": ("in.error_class", [("-1", "ARG"), ("MPI_ERR_OTHER", "ARG")]),
                         "string": ('"text"', NULL_ARG)},
    "Remove_error_class": {"errorclass": ("in.error_class", [("-1", "ARG"), ("MPI_ERR_OTHER", "ARG")])},
    "Remove_error_code": {"errorcode": ("in.error_class", [("-1", "ARG"), ("MPI_ERR_OTHER", "ARG")])},
    "Remove_error_string": {"errorcode": ("in.error_class", [("-1", "ARG"), ("MPI_ERR_OTHER", "ARG")])},
    "Error_class": {"errorcode": ("MPI_ERR_OTHER", [("-1", "ARG"), ("1 << 20", "ARG")])},
    "Error_string": {"errorcode": ("MPI_ERR_OTHER", [("-1", "ARG"), ("1 << 20", "ARG")])},
    "Alloc_mem": {"size": ("8", BAD_ARG), "baseptr": ("OUT", NULL_ARG)},
    "Attr_delete": {"keyval": ("in.comm_key", KEY)},
    "Attr_get": {"keyval": ("in.comm_key", KEY), "attribute_val": ("OUT", NULL_ARG)},
    "Attr_put": {"keyval": ("in.comm_key", KEY), "attribute_val": ("NULL", NONE)},
    "Comm_delete_attr": {"comm_keyval": ("in.comm_key", KEY + [("MPI_TAG_UB", "KEYVAL|ARG")])},
    "Comm_get_attr": {"comm_keyval": ("in.comm_key", KEY), "attribute_val": ("OUT", NULL_ARG)},
    "Comm_set_attr": {"comm_keyval": ("in.comm_key", KEY + [("MPI_TAG_UB", "KEYVAL|ARG")]), "attribute_val": ("NULL", NONE)},
    "Type_delete_attr": {"type_keyval": ("in.type_key", TYPE_KEY)},
    "Type_get_attr": {"type_keyval": ("in.type_key", TYPE_KEY), "attribute_val": ("OUT", NULL_ARG)},
    "Type_set_attr": {"type_keyval": ("in.type_key", TYPE_KEY), "attribute_val": ("NULL", NONE)},
    "Keyval_free": {"keyval": ("&f.comm_key", NULL_ARG + [("&f.null_key", "KEYVAL"), ("&f.bad_key", "KEYVAL"),
                                                          ("&f.tag_ub_key", "KEYVAL|ARG")])},
    "Comm_free_keyval": {"comm_keyval": ("&f.comm_key", NULL_ARG + [("&f.null_key", "KEYVAL"), ("&f.bad_key", "KEYVAL"),
                                                                    ("&f.type_key", "KEYVAL"), ("&f.tag_ub_key", "KEYVAL|ARG")])},
    "Type_free_keyval": {"type_keyval": ("&f.type_key", NULL_ARG + [("&f.null_key", "KEYVAL"), ("&f.bad_key", "KEYVAL"),
                                                                    ("&f.comm_key", "KEYVAL")])},
    "Comm_create_keyval": {"comm_copy_attr_fn": ("MPI_COMM_NULL_COPY_FN", NONE),
                           "comm_delete_attr_fn": ("MPI_COMM_NULL_DELETE_FN", NONE)},
    "Type_create_keyval": {"type_copy_attr_fn": ("MPI_TYPE_NULL_COPY_FN", NONE),
                           "type_delete_attr_fn": ("MPI_TYPE_NULL_DELETE_FN", NONE)},
    "Keyval_create": {"copy_fn": ("MPI_NULL_COPY_FN", NONE), "delete_fn": ("MPI_NULL_DELETE_FN", NONE)},
    "Buffer_attach": BUFFER, "Comm_attach_buffer": BUFFER, "Session_attach_buffer": BUFFER,
    "Buffer_detach": DETACH, "Comm_detach_buffer": DETACH, "Session_detach_buffer": DETACH,
    "Cart_coords": {"comm": ("f.ok.cart", [("f.ok.comm", TOPO)]), "coords": ("OUT", NULL_ARG)},
    "Cart_create": {"ndims": ("1", [("-1", "ARG|DIMS"), ])},
    "Cart_get": {"comm": ("f.ok.cart", [("f.ok.comm", TOPO)]), "maxdims": ("8", NONE)},
    "Cart_map": {"ndims": ("1", [("-1", "ARG|DIMS")])},
    "Cart_rank": {"comm": ("f.ok.cart", [("f.ok.comm", TOPO)])},
    "Cart_shift": {"comm": ("f.ok.cart", [("f.ok.comm", TOPO)]), "direction": ("0", [("-1", "ARG|DIMS"), ("7", "ARG|DIMS")])},
    "Cart_sub": {"comm": ("f.ok.cart", [("f.ok.comm", TOPO)]), "remain_dims": ("in.ONE", NULL_ARG)},
    "Cartdim_get": {"comm": ("f.ok.cart", [("f.ok.comm", TOPO)])},
    "Comm_create": {"group": (None, "+", [("in.group_outside", "GROUP")])},
    "Comm_create_errhandler": {"comm_errhandler_fn": ("comm_handler", NULL_ARG)},
    "Session_create_errhandler": {"session_errhandler_fn": ("session_handler", NULL_ARG)},
    "Comm_create_from_group": {"stringtag": ('"tag"', NULL_ARG)},
    "Comm_create_group": {"group": (None, None)},
    "Comm_set_errhandler": {"errhandler": (None, "+", [("f.ok.session_errhandler", "ERRHANDLER|ARG")])},
    "Comm_set_name": {"comm_name": ('"name"', NULL_ARG)},
    "Comm_remote_group": {"comm": (None, "+", [("f.ok.comm", "COMM")]), "group": ("OUT", [("NULL", "ARG|COMM")])},
    "Comm_remote_size": {"comm": (None, "+", [("f.ok.comm", "COMM")]), "size": ("OUT", [("NULL", "ARG|COMM")])},
    "Comm_split_type": {"split_type": ("MPI_COMM_TYPE_SHARED", [("-77", "ARG")])},
    "Comm_split": {"key": ("0", NONE)},
    "Dims_create": {"nnodes": ("4", [("0", "ARG|DIMS"), ("-1", "ARG|DIMS")]), "ndims": ("1", [("-1", "ARG|DIMS")]),
                    "dims": ("f.dims_zero", [("NULL", "ARG|DIMS"), ("f.dims_neg", "ARG|DIMS"), ("f.dims_three", "ARG|DIMS")])},
    "Dist_graph_create": {"n": ("1", [("-1", "ARG")]), "sources": ("in.ZERO", [("NULL", "ARG"), ("in.ints_big", "RANK|ARG")]),
                          "degrees": ("in.ONE", [("NULL", "ARG"), ("in.NEG", "ARG")]),
                          "destinations": ("in.ZERO", [("NULL", "ARG"), ("in.ints_big", "RANK|ARG")]),
                          "weights": ("in.ONE", [("NULL", "ARG"), ("in.NEG", "ARG")])},
    "Dist_graph_create_adjacent": {
        "indegree": ("1", BAD_ARG), "sources": ("in.ZERO", [("NULL", "ARG"), ("in.ints_big", "RANK|ARG")]),
        "sourceweights": ("in.ONE", [("NULL", "ARG"), ("in.NEG", "ARG")]), "outdegree": ("1", BAD_ARG),
        "destinations": ("in.ZERO", [("NULL", "ARG"), ("in.ints_big", "RANK|ARG")]),
        "destweights": ("in.ONE", [("NULL", "ARG"), ("in.NEG", "ARG")])},
    "Dist_graph_neighbors": {"comm": ("f.ok.dist", [("f.ok.comm", TOPO), ("f.ok.cart", TOPO)]), "maxindegree": ("1", BAD_ARG),
                             "sourceweights": ("OUT", NULL_ARG), "destweights": ("OUT", NONE),
                             "maxoutdegree": ("1", BAD_ARG)},
    "Dist_graph_neighbors_count": {"comm": ("f.ok.dist", [("f.ok.comm", TOPO), ("f.ok.cart", TOPO)])},
    "Get_address": {"location": ("in.buf", NONE)},
    "Get_count": STATUS_IN, "Get_elements": STATUS_IN, "Get_elements_x": STATUS_IN,
    "Status_get_error": STATUS_IN, "Status_get_source": STATUS_IN, "Status_get_tag": STATUS_IN,
    "Status_set_cancelled": STATUS_IN, "Status_set_elements_x": STATUS_IN,
    "Status_set_elements": STATUS_IN, "Status_set_error": STATUS_IN,
    "Status_set_source": dict(STATUS_IN, source=("0", NONE)), "Status_set_tag": dict(STATUS_IN, tag=("7", NONE)),
    "Test_cancelled": STATUS_IN,
    "Graph_create": {"nnodes": ("1", [("-1", "ARG"), ("in.size + 1", "ARG|RANK")]), "indx": ("in.ONE", [("NULL", "ARG"), ("in.NEG", "ARG")]),
                     "edges": ("in.ZERO", [("NULL", "ARG"), ("in.ints_big", "ARG|RANK")])},
    "Graph_map": {"nnodes": ("1", [("-1", "ARG"), ("in.size + 1", "ARG|RANK")]),
                  "indx": ("in.ONE", [("NULL", "ARG"), ("in.NEG", "ARG")]),
                  "edges": ("in.ZERO", [("NULL", "ARG"), ("in.ints_big", "ARG|RANK")])},
    "Graph_get": {"comm": ("f.ok.graph", [("f.ok.comm", TOPO), ("f.ok.cart", TOPO)]), "maxindex": ("1", BAD_ARG),
                  "maxedges": ("1", BAD_ARG)},
    "Graph_neighbors": {"comm": ("f.ok.graph", [("f.ok.comm", TOPO), ("f.ok.cart", TOPO)]), "maxneighbors": ("1", BAD_ARG)},
    "Graph_neighbors_count": {"comm": ("f.ok.graph", [("f.ok.comm", TOPO), ("f.ok.cart", TOPO)])},
    "Graphdims_get": {"comm": ("f.ok.graph", [("f.ok.comm", TOPO), ("f.ok.cart", TOPO)])},
    "Grequest_complete": {"request": ("f.ok.request", [("MPI_REQUEST_NULL", "REQUEST"), ("f.wrong.request", "REQUEST"),
                                                       ("f.ok.request", "REQUEST")])},
    "Grequest_start": {"query_fn": ("grequest_query", NONE), "free_fn": ("grequest_free", NONE),
                       "cancel_fn": ("grequest_cancel", NONE)},
    "Group_excl": {"n": ("1", BAD_ARG + [("in.size + 1", "ARG|RANK")]), "ranks": ("in.ZERO", GROUP_RANKS)},
    "Group_incl": {"n": ("1", BAD_ARG + [("in.size + 1", "ARG|RANK")]), "ranks": ("in.ZERO", GROUP_RANKS)},
    "Group_range_excl": {"n": ("1", BAD_ARG), "ranges": ("in.ranges", RANGES)},
    "Group_range_incl": {"n": ("1", BAD_ARG), "ranges": ("in.ranges", RANGES)},
    "Group_translate_ranks": {"n": ("1", BAD_ARG), "ranks1": ("in.ZERO", GROUP_RANKS)},
    "Group_from_session_pset": {"pset_name": ('"mpi://WORLD"', [("NULL", "ARG"), ('"mpi://NONE"', "ARG")])},
    "Session_get_pset_info": {"pset_name": ('"mpi://WORLD"', [("NULL", "ARG"), ('"mpi://NONE"', "ARG")])},
    "Session_get_nth_pset": {"n": ("0", [("-1", "ARG"), ("99", "ARG")]), "pset_len": ("&f.len", NULL_ARG),
                             "pset_name": ("OUT", NULL_ARG)},
    "Info_create_env": {"argc": ("0", NONE), "argv": ("NULL", NONE)},
    "Info_delete": {"key": (None, "+", [('"unknown"', "INFO_NOKEY")])},
    "Info_get": {"valuelen": ("8", [("-1", "ARG")]), "value": ("OUT", [("NULL", "ARG|INFO_VALUE")])},
    "Info_get_nthkey": {"n": ("0", [("-1", "ARG"), ("99", "ARG")]), "key": ("OUT", [("NULL", "ARG|INFO_KEY")])},
    "Info_get_string": {"buflen": ("&f.len", NULL_ARG), "value": ("OUT", [("NULL", "ARG|INFO_VALUE")])},
    "Info_set": {"value": ('"value"', [("NULL", "INFO_VALUE|ARG"), ("in.long_value", "INFO_VALUE")]),
                 "info": (None, "+", [("MPI_INFO_ENV", "INFO|ARG")])},
    "Info_dup": {}, "Info_get_nkeys": {}, "Info_get_valuelen": {},
    "Info_free": {"info": (None, "+", [("&f.predefined.info", "INFO")])},
    "Intercomm_create": {"peer_comm": ("f.ok.comm", NONE), "remote_leader": ("0", NONE)},
    "Intercomm_create_from_groups": {"stringtag": ('"tag"', NULL_ARG)},
    "Intercomm_merge": {"intercomm": (None, "+", [("f.ok.comm", "COMM")]), "newintracomm": ("OUT", [("NULL", "ARG|COMM")])},
    "Op_create": {"user_fn": ("USER_FN", NULL_ARG)},
    "Op_commutative": {},
    "Op_free": {"op": (None, "+", [("&f.predefined.op", "OP")])},
    "Type_free": {"datatype": (None, "+", [("&f.predefined.type", "TYPE")])},
    "Comm_free": {"comm": (None, "+", [("&f.predefined.comm", "COMM")])},
    "Comm_disconnect": {"comm": (None, "+", [("&f.predefined.comm", "COMM")])},
    "Pack": {"outsize": ("1024", [("-1", "ARG|COUNT"), ("2", "TRUNCATE|ARG")]), "position": ("&f.zero", NULL_ARG + [("&f.negative", "ARG")])},
    "Unpack": {"insize": ("64", [("-1", "ARG|COUNT"), ("2", "TRUNCATE|ARG")]), "position": ("&f.zero", NULL_ARG + [("&f.negative", "ARG")])},
    "Pack_external": {"outsize": ("1024", [("-1", "ARG|COUNT"), ("2", "TRUNCATE|ARG")]), "position": ("&f.zero", NULL_ARG + [("&f.negative", "ARG")])},
    "Unpack_external": {"insize": ("64", [("-1", "ARG|COUNT"), ("2", "TRUNCATE|ARG")]), "position": ("&f.zero", NULL_ARG + [("&f.negative", "ARG")])},
    "Parrived": {"partition": ("0", [("-1", "ARG"), ("2", "ARG")]), "request": ("f.ok.precv", [("f.wrong.request", "REQUEST"),
                                                       ("f.ok.request", "REQUEST|ARG"), ("f.ok.psend", "REQUEST|ARG")])},
    "Pready": {"partition": ("0", [("-1", "ARG"), ("9", "ARG")]), "request": ("f.ok.psend", [
        ("MPI_REQUEST_NULL", "REQUEST|ARG"), ("f.wrong.request", "REQUEST"), ("f.ok.request", "REQUEST|ARG")])},
    "Pready_list": {"length": ("1", [("-1", "ARG|COUNT")]), "array_of_partitions": ("in.ZERO", [("NULL", "ARG")]), "request": ("f.ok.psend", [
        ("MPI_REQUEST_NULL", "REQUEST|ARG"), ("f.wrong.request", "REQUEST"), ("f.ok.request", "REQUEST|ARG")])},
    "Pready_range": {"partition_low": ("0", [("-1", "ARG"), ]), "partition_high": ("0", [("9", "ARG")]), "request": ("f.ok.psend", [
        ("MPI_REQUEST_NULL", "REQUEST|ARG"), ("f.wrong.request", "REQUEST"), ("f.ok.request", "REQUEST|ARG")])},
    "Request_get_status": {"request": ("f.ok.request", [("f.wrong.request", "REQUEST")])},
    "Request_get_status_all": {"count": ("1", [("-1", "COUNT|ARG")])},
    "Request_get_status_any": {"count": ("1", [("-1", "COUNT|ARG")])},
    "Startall": {"count": ("1", [("-1", "COUNT|ARG")]),
                 "array_of_requests": ("f.requests", REQUESTS + [("f.null_requests", "REQUEST")])},
    "Start": {"request": ("&f.ok.request", [("NULL", "ARG|REQUEST"), ("&f.null.request", "REQUEST"), ("&f.wrong.request", "REQUEST")])},
    "Cancel": {"request": ("&f.ok.request", [("NULL", "ARG|REQUEST"), ("&f.null.request", "REQUEST"), ("&f.wrong.request", "REQUEST")])},
    "Wait": {"request": ("&f.ok.request", [("NULL", "ARG|REQUEST"), ("&f.wrong.request", "REQUEST")])},
    "Test": {"request": ("&f.ok.request", [("NULL", "ARG|REQUEST"), ("&f.wrong.request", "REQUEST")])},
    "Mrecv": {"buf": ("OUT", NONE), "message": ("&f.ok.message", [("NULL", "ARG|REQUEST"), ("&f.null.message", "REQUEST|ARG"), ("&f.wrong.message", "REQUEST|ARG")])},
    "Imrecv": {"buf": ("OUT", NONE), "message": ("&f.ok.message", [("NULL", "ARG|REQUEST"), ("&f.null.message", "REQUEST|ARG"), ("&f.wrong.message", "REQUEST|ARG")])},
    "Comm_get_name": {"comm": ("f.ok.comm", "=", [("f.wrong.comm", "COMM")])},
    "Type_get_name": {"datatype": ("MPI_INT", [("f.wrong.type", "TYPE")])},
    "Reduce_local": {"inbuf": ("in.buf", NULL_BUF + [IN_PLACE]), "inoutbuf": ("OUT", NULL_BUF + [IN_PLACE])},
    "Type_commit": {"datatype": ("&f.ok.type", [("NULL", "ARG|TYPE"), ("&f.null.type", "TYPE"), ("&f.wrong.type", "TYPE")])},
    "Type_create_darray": {
        "size": ("1", [("0", "ARG"), ("-1", "ARG")]), "rank": ("0", [("-1", "ARG|RANK"), ("1", "ARG|RANK")]),
        "ndims": ("1", [("-1", "ARG|DIMS"), ("0", "ARG|DIMS")]),
        "array_of_gsizes": ("in.ONE", [("NULL", "ARG"), ("in.NEG", "ARG")]),
        "array_of_distribs": ("in.distribs", [("NULL", "ARG"), ("in.ints_neg", "ARG")]),
        "array_of_dargs": ("in.dargs", [("NULL", "ARG"), ("in.ints_neg", "ARG")]),
        "array_of_psizes": ("in.ints_one", [("NULL", "ARG"), ("in.ints_neg", "ARG")])},
    "Type_create_subarray": {
        "ndims": ("1", [("-1", "ARG|DIMS")]), "array_of_sizes": ("in.ONE", [("NULL", "ARG"), ("in.NEG", "ARG")]),
        "array_of_subsizes": ("in.ONE", [("NULL", "ARG"), ("in.NEG", "ARG"), ("in.BIG", "ARG")]),
        "array_of_starts": ("in.ZERO", [("NULL", "ARG"), ("in.NEG", "ARG"), ("in.BIG", "ARG")])},
    "Type_create_f90_complex": {"p": ("6", [("9999", "ARG")]), "r": ("30", [("99999", "ARG")])},
    "Type_create_f90_real": {"p": ("6", [("9999", "ARG")]), "r": ("30", [("99999", "ARG")])},
    "Type_create_f90_integer": {"r": ("9", [("9999", "ARG")])},
    "Type_match_size": {"typeclass": ("MPI_TYPECLASS_INTEGER", [("-77", "ARG")]), "size": ("4", [("3", "ARG"), ("-1", "ARG")])},
    "Type_create_struct": {"array_of_blocklengths": ("in.ONE", LENGTHS), "array_of_displacements": ("in.ZERO", NULL_ARG),
                           "array_of_types": ("in.types", TYPE_ARRAYS)},
    "Type_get_contents": {"datatype": ("f.ok.loose", [("MPI_INT", "TYPE|ARG")]), "max_integers": ("1", [("-1", "ARG"), ("0", "ARG")]),
                          "max_large_counts": ("1", [("-1", "ARG")]),
                          "max_addresses": ("0", [("-1", "ARG")]), "max_datatypes": ("1", [("-1", "ARG"), ("0", "ARG")]),
                          "array_of_addresses": ("OUT", NONE), "array_of_large_counts": ("OUT", NONE)},
    "Type_get_value_index": {"value_type": ("MPI_INT", None), "index_type": ("MPI_INT", None)},
    "Type_set_name": {"type_name": ('"name"', NULL_ARG)},
    "Type_create_resized": {},
}
for _name in ("Exscan", "Iexscan", "Exscan_init"): # rank 0 has no receive buffer
    FUNCTIONS[_name] = {"recvbuf": ("OUT", NONE)}
for _name in ("Type_indexed", "Type_create_hindexed"):
    FUNCTIONS[_name] = {"array_of_blocklengths": ("in.ONE", LENGTHS), "array_of_displacements": ("in.ZERO", NULL_ARG)}
for _name in ("Type_create_hindexed_block", "Type_create_indexed_block"):
    FUNCTIONS[_name] = {"array_of_displacements": ("in.ZERO", NULL_ARG)}

# MPI_IN_PLACE where it is not allowed.
IN_PLACE_WRONG = {
    "recvbuf": re.compile(r"I?(all|gather|reduce|scan|neighbor|sendrecv)", re.I),
    "sendbuf": re.compile(r"I?(neighbor|scatter|sendrecv)", re.I),
    "buffer": re.compile(r"I?bcast", re.I),
    "buf": re.compile(r"I?[bprs]?(send|recv)", re.I),
    "inbuf": re.compile(r"(un)?pack", re.I),
    "outbuf": re.compile(r"(un)?pack", re.I),
}
# Constructors and inquiries take types that are not committed; these do not.
NEEDS_COMMITTED = re.compile(r"I?(b|s|r)?(send|recv)|I?m?recv|P(send|recv)|Sendrecv|Isendrecv|(Un)?[Pp]ack(_external)?$|"
                             r"I?(bcast|gather|scatter|all|reduce|scan|exscan|neighbor)", re.I)
COLLECTIVE = re.compile(r"I?(barrier|bcast|gather|scatter|all|reduce|scan|exscan|neighbor)", re.I)


def parameters(text):
    """[(type, name)]"""
    result = []
    if text == "void":
        return result
    for word in text.split(", "):
        match = re.match(r"(.*?)(\w+)((?:\[\d*\])*)$", word)
        base, name, array = match.group(1).strip(), match.group(2), match.group(3)
        result.append((re.sub(r"\s+", " ", base + (" " + array if array else "")), name))
    return result


def element(type_):
    """The type that a pointer or array parameter points to; None if it is none."""
    match = re.match(r"(?:const )?([\w ]+?) ?(\*|\[\])$", type_)
    return match.group(1) if match else None


def of_width(expr, type_):
    """in.ONE -> in.ints_one, in.counts_one or in.aints_one."""
    width = {"MPI_Count": "counts", "MPI_Aint": "aints"}.get(element(type_), "ints")
    return re.sub(r"in\.(ONE|ZERO|NEG|BIG)", lambda m: f"in.{width}_{m.group(1).lower()}", expr)


def general(name, type_, param):
    """(right argument, wrong ones) by the type and name of a parameter."""
    inout = re.match(r"(Comm_free|Comm_disconnect|Type_free|Group_free|Info_free|Op_free|Errhandler_free|Request_free|"
                     r"Session_finalize)$", name)
    if type_ in HANDLES:
        field, classes = HANDLES[type_]
        wrong = [(f"f.wrong.{field}", classes), (f"FREED f.freed.{field}", classes)]
        null = (f"f.null.{field}", classes)
        right = {"MPI_Datatype": "MPI_INT", "MPI_Op": "MPI_SUM", "MPI_Info": "MPI_INFO_NULL",
                 "MPI_Errhandler": "MPI_ERRORS_RETURN"}.get(type_, f"f.ok.{field}")
        if type_ == "MPI_Info":
            if name.startswith("Info_"):
                return "f.ok.info", [null] + wrong
            return right, wrong
        if type_ == "MPI_Datatype" and NEEDS_COMMITTED.match(name):
            wrong.append(("f.ok.loose", "TYPE"))
        if type_ == "MPI_Comm" and re.match(r"I?neighbor", name, re.I):
            return "f.ok.cart", [null, ("f.ok.comm", TOPO)] + wrong
        return right, [null] + wrong
    if inout and element(type_) in HANDLES:
        field, classes = HANDLES[element(type_)]
        return f"&f.ok.{field}", [("NULL", "ARG|" + classes), (f"&f.null.{field}", classes), (f"&f.wrong.{field}", classes),
                                  (f"FREED &f.freed.{field}", classes)]
    if type_ in ("int", "MPI_Count", "MPI_Aint") and param in NUMBERS:
        return NUMBERS[param]
    if (type_, param) in POINTERS:
        return POINTERS[(type_, param)]
    if param == "array_of_requests":
        return "f.requests", REQUESTS
    if element(type_) == "MPI_Status":
        return "MPI_STATUS_IGNORE", NONE
    if type_ == "const int *" or type_.startswith("const ") or element(type_) is None or type_ == "void *":
        return None
    return "OUT", NULL_ARG


def arguments(name, params):
    """[(right argument, [(wrong, classes)])] of a function."""
    own = dict(FUNCTIONS.get(re.sub(r"_c$", "", name), {}))
    result = []
    for index, (type_, param) in enumerate(params):
        right, wrong = general(name, type_, param) or (None, None)
        if param in own:
            entry = own.pop(param)
            if entry[0] is not None:
                right = entry[0]
            if entry[1] == "=":
                wrong = entry[2]
            elif entry[1] == "+":
                wrong = list(wrong) + entry[2]
            elif type_ in HANDLES and entry[1] is not None and entry[1] is not NONE and right.startswith("f.ok.") and \
                    type_ == "MPI_Comm":
                wrong = list(wrong) + entry[1]
            elif entry[1] is not None:
                wrong = entry[1]
        if right is None:
            sys.exit(f"gen_errors_table: no right argument is known for '{type_} {param}' of MPI_{name}")
        wrong = list(wrong)
        if param in IN_PLACE_WRONG and IN_PLACE_WRONG[param].match(name) and IN_PLACE not in wrong:
            wrong.append(IN_PLACE)
        if COLLECTIVE.match(name) and type_ == "MPI_Op":
            wrong.append(("MPI_REPLACE", "OP"))
        if right == "OUT":
            right = f"({element(type_) or 'void'} *)f.out[{index}]" if type_ != "void *" else f"f.out[{index}]"
        right = {"USER_FN": "user_fn_c" if name.endswith("_c") else "user_fn"}.get(right, right)
        if right in ("&f.zero", "&f.negative") or any(w[0] == "&f.negative" for w in wrong):
            width = {"int": "", "MPI_Count": "_count", "MPI_Aint": "_aint"}[element(type_)]
            right += width
            wrong = [(w + width if w == "&f.negative" else w, c) for w, c in wrong]
        result.append((of_width(right, type_), [(of_width(w, type_), c) for w, c in wrong]))
    absent = [p for p in own if p not in ("max_large_counts", "array_of_large_counts")]
    if absent and not name.endswith("_c"):
        sys.exit(f"gen_errors_table: MPI_{name} has no parameter {absent[0]}")
    return result


def classes_of(text):
    words = (text.split("|") + ["", ""])[:3]
    return ", ".join(f"MPI_ERR_{w}" if w else "-1" for w in words)


def cases(name, params):
    args = arguments(name, params)
    for index, (_, wrong) in enumerate(args):
        for expr, classes in wrong:
            macro = "CASE"
            if expr.startswith("FREED "):
                macro, expr = "FREED_CASE", expr[len("FREED "):]
            call = ", ".join(expr if i == index else right for i, (right, _) in enumerate(args))
            yield f"{macro}({classes_of(classes)}, MPI_{name}({call}));"


def generate(tsv):
    out = ["/* SPDX-License-Identifier: BSD-3-Clause */",
           "/* Written by gen_errors_table.py. */"]
    names = []
    for line in tsv.read_text(encoding="ascii").splitlines():
        if not line or line.startswith("#"):
            continue
        full, ret, text = line.split("\t")
        name = full[len("MPI_"):]
        if OTHERS.match(full) or name in NO_ERRORS:
            continue
        if ret != "int":
            sys.exit(f"gen_errors_table: {full} returns {ret}")
        lines = list(cases(name, parameters(text)))
        if not lines:
            continue
        names.append(name)
        out += ["", f"static void wrong_{name}(void)", "{"] + ["    " + l for l in lines] + ["}"]
    out += ["", "static const struct function functions[] = {"]
    out += [f'    {{"MPI_{name}", wrong_{name}}},' for name in names]
    out += ["};"]
    return "\n".join(out) + "\n"


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: gen_errors_table.py OUT.inc")
    text = generate(HERE / "../../src/ampi/abi/functions.tsv")
    partial = f"{sys.argv[1]}.{os.getpid()}"
    pathlib.Path(partial).write_text(text, encoding="ascii")
    os.rename(partial, sys.argv[1])


main()
