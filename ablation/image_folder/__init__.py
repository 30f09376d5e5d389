"""Folders of images as datasets: scanned, named by their content, decoded once, and from then on read from a cache.

`scan` finds the images of a folder, `fingerprint` names what is in them, `decode` makes pixels of one of them, and
`prepare` joins the three: from a folder to the facts that a plan needs, with the pixels left in a cache.
"""
