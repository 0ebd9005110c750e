"""What a kernel can be given besides arrays and numbers."""

__all__ = ["CPointer"]


class CPointer:
    """An argument that lies at an address: the kernel takes as many bytes as its parameter has."""

    def __init__(self, p=0):
        self._address = p
