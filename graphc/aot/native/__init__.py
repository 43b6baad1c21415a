"""The native run time of exported libraries, as LLVM text.

``records`` says what lies in memory, ``binding`` turns sizes into places, ``running`` runs,
``interface`` has the functions that C sees.
"""
